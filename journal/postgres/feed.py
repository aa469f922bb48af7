"""The whole journal in commit order.

Position in the feed is (era, transaction id, position). Transaction ids are given when a transaction first writes, not
when it commits; so nothing at or above the oldest transaction that still runs is read: what is below it is final. A
long transaction, even of another database of the same server, therefore delays the feed; `feed_lag` names it.

Ids grow within one cluster only. A database that was dumped and restored into another cluster finds that on opening, by
the cluster's identifier, and starts a new era: rows written from then on come after all that were restored.
"""

from collections.abc import Sequence

import asyncpg

from ductor.journal.postgres.database import Database
from ductor.journal.postgres.migrations import lock
from ductor.journal.postgres.rows import transition
from ductor.journal.records import FeedEntry, FeedLag, FeedPosition
from ductor.journal.store import MAX_FEED_PAGE_BYTES

LAG_ROWS_LIMIT = 100_000
"""Rows that a lag report counts at most."""
ENDED_TRANSACTION = "a transaction that ended while this report was made"


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
