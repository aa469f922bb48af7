"""The whole journal in commit order.

Position in the feed is (era, transaction id, position). Transaction ids are given when a transaction first writes, not
when it commits; so nothing at or above the oldest transaction that still runs is read: what is below it is final. A
long transaction, even of another database of the same server, therefore delays the feed; `feed_lag` names it.

Ids grow within one cluster only. A database that was dumped and restored into another cluster finds that on opening, by
the cluster's identifier, and starts a new era: rows written from then on come after all that were restored.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import asyncpg
import msgspec

from ductor.journal.postgres.database import Database
from ductor.journal.postgres.migrations import lock
from ductor.journal.postgres.rows import transition
from ductor.journal.postgres.statements import QUERIES, Statement
from ductor.journal.records import FeedEntry, FeedLag, FeedPosition
from ductor.journal.store import MAX_FEED_PAGE_BYTES

LAG_ROWS_LIMIT = 100_000
"""Rows that a lag report counts at most."""
ENDED_TRANSACTION = "a transaction that ended while this report was made"

RUN_ID_CHARACTERS = 36
# Aggregates take their rows in the order in which the page has them, so that all columns agree. The page is bounded by
# what is stored, and cut once more by the text, which may be a hundred times as long.
_COLUMNS = Statement(
    f"""
SELECT string_agg(int4send(era), ''), string_agg(int8send(transaction_id), ''), string_agg(int8send(position), ''),
    string_agg(run_id, ''), string_agg(int8send(version), ''), string_agg(int8send(at_us), ''),
    string_agg(int4send(octet_length(events)), ''), '[' || string_agg(events, ',') || ']'
FROM (
    SELECT *, sum(octet_length(events)) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(events) AS text_bytes_before
    FROM ({QUERIES["feed"].text}) AS page
) AS feed
WHERE text_bytes_before < ${1 + QUERIES["feed"].parameters.index("max_bytes")}::bigint
""",  # noqa: S608 - our own words
    QUERIES["feed"].parameters,
)


class FeedColumns(msgspec.Struct, frozen=True):
    """A page of the feed as columns, all of one length and in the feed's order: for whoever reads everything. A value
    of each column comes at a tenth of the cost of a row's.

    Attributes:
        events: JSON text of the list of all rows' lists of events.
        size_bytes: of each row's own text.
    """

    eras: Sequence[int]
    transaction_ids: Sequence[int]
    positions: Sequence[int]
    run_ids: Sequence[str]
    versions: Sequence[int]
    at_us: Sequence[int]
    size_bytes: Sequence[int]
    events: bytes

    def __len__(self) -> int:
        return len(self.positions)

    def position(self, row: int) -> FeedPosition:
        """The place of a row."""
        return FeedPosition(self.eras[row], self.transaction_ids[row], self.positions[row])

    def count_up_to(self, position: FeedPosition) -> int:
        """How many of the rows lie at a place or before it."""
        return bisect_right(range(len(self)), position, key=self.position)

    def only(self, rows: Sequence[int]) -> "FeedColumns":
        """Some of the rows, given by their numbers in order."""
        texts = self.texts()
        return FeedColumns(
            [self.eras[row] for row in rows],
            [self.transaction_ids[row] for row in rows],
            [self.positions[row] for row in rows],
            [self.run_ids[row] for row in rows],
            [self.versions[row] for row in rows],
            [self.at_us[row] for row in rows],
            [self.size_bytes[row] for row in rows],
            b"[" + b",".join(texts[row] for row in rows) + b"]",
        )

    def texts(self) -> list[bytes]:
        """The JSON text of each row's events."""
        # a bracket before the first, a comma before each other
        starts = accumulate(self.size_bytes, lambda start, size: start + size + 1, initial=1)
        return [self.events[start : start + size] for start, size in zip(starts, self.size_bytes, strict=False)]


EMPTY_PAGE = FeedColumns((), (), (), (), (), (), (), b"[]")


class Feed:
    """Reads of the feed."""

    _database: Database

    async def feed(
        self, after: FeedPosition, limit: int, *, max_bytes: int = MAX_FEED_PAGE_BYTES
    ) -> Sequence[FeedEntry]:
        """Journal rows of all runs in commit order, never stepping over one that may still commit. Bytes are those that
        the database keeps, which may be compressed."""
        rows = await self._database.fetch(
            "feed",
            era=after.era,
            transaction_id=str(after.transaction_id),
            position=after.position,
            limit=limit,
            max_bytes=max_bytes,
        )
        return [FeedEntry(FeedPosition(row[0], row[1], row[2]), transition(row, 3)) for row in rows]

    async def feed_columns(
        self, after: FeedPosition, limit: int, *, max_bytes: int = MAX_FEED_PAGE_BYTES
    ) -> FeedColumns:
        """The same rows as `feed` gives, without what ties them together (commit ids and hashes). `max_bytes` bounds
        the text, too."""
        values = {
            "era": after.era,
            "transaction_id": str(after.transaction_id),
            "position": after.position,
            "limit": limit,
            "max_bytes": max_bytes,
        }
        (
            (eras, transaction_ids, positions, run_ids, versions, at_us, sizes, events),
        ) = await self._database.fetch_statement("feed_columns", _COLUMNS, values)
        if positions is None:
            return EMPTY_PAGE
        return FeedColumns(
            _integers("i", eras),
            _integers("q", transaction_ids),
            _integers("q", positions),
            [run_ids[start : start + RUN_ID_CHARACTERS] for start in range(0, len(run_ids), RUN_ID_CHARACTERS)],
            _integers("q", versions),
            _integers("q", at_us),
            _integers("i", sizes),
            events.encode(),
        )

    async def feed_lag(self, after: FeedPosition) -> FeedLag:
        """How far behind `after` is. At most LAG_ROWS_LIMIT rows are counted."""
        row = await self._database.fetch_row(
            "feed_lag",
            era=after.era,
            transaction_id=str(after.transaction_id),
            position=after.position,
            limit=LAG_ROWS_LIMIT,
        )
        assert row is not None
        blocked_by = ""
        if row["is_blocked"]:
            blocker = await self._database.fetch_row("oldest_transaction")
            blocked_by = str(blocker[0]) if blocker is not None else ENDED_TRANSACTION
        return FeedLag(rows=row["rows"], oldest_age_ms=max(0, row["oldest_age_us"] // 1_000), blocked_by=blocked_by)


def _integers(code: str, column: bytes) -> list[int]:
    """Whole numbers as PostgreSQL sends them: `i` of four bytes, `q` of eight, the highest first."""
    numbers = array(code, column)
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tolist()


async def start_era_if_restored(connection: asyncpg.Connection) -> bool:
    """Start a new era if this database was moved to another cluster. To be called inside a transaction."""
    if not await _was_restored(connection):
        return False
    await lock(connection)
    if not await _was_restored(connection):
        return False
    era = await connection.fetchval(
        "INSERT INTO ductor.eec_journal_era (era, system_identifier)"
        " SELECT (SELECT max(era) + 1 FROM ductor.eec_journal_era), system_identifier FROM pg_control_system()"
        " RETURNING era"
    )
    await connection.execute(f"ALTER TABLE ductor.eec_workflow_transition ALTER COLUMN era SET DEFAULT {era:d}")
    return True


async def _was_restored(connection: asyncpg.Connection) -> bool:
    restored: bool = await connection.fetchval(
        "SELECT (SELECT system_identifier FROM ductor.eec_journal_era ORDER BY era DESC LIMIT 1)"
        " <> (SELECT system_identifier FROM pg_control_system())"
    )
    return restored
