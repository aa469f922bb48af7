"""`PostgresStore`: the store protocol on PostgreSQL.

Commits go through the group-commit writer, loads through the group reader, everything else through a small pool.
"""

import logging
from collections.abc import Callable
from typing import Self

import asyncpg

from ductor.journal.commit import Commit, CommitAnswer
from ductor.journal.postgres.bulk_controls import BulkControls
from ductor.journal.postgres.bus import Bus
from ductor.journal.postgres.catalog import Catalog
from ductor.journal.postgres.compaction import Compaction
from ductor.journal.postgres.database import Database
from ductor.journal.postgres.digests import Digests
from ductor.journal.postgres.feed import Feed, start_era_if_restored
from ductor.journal.postgres.inputs import Inputs
from ductor.journal.postgres.leases import Leases
from ductor.journal.postgres.messages import Messages
from ductor.journal.postgres.migrations import check_schema
from ductor.journal.postgres.reader import inputs, loads
from ductor.journal.postgres.runs import Runs
from ductor.journal.postgres.set_aside import SetAside
from ductor.journal.postgres.settings import ConnectionSettings, WriterLimits
from ductor.journal.postgres.transfer import Transfer
from ductor.journal.postgres.triggers import Triggers
from ductor.journal.postgres.wakeups import Wakeups
from ductor.journal.postgres.workers import Workers
from ductor.journal.postgres.writer import Writer
from ductor.journal.records import StoreHealth

_logger = logging.getLogger(__name__)


class PostgresStore(
    Runs,
    Wakeups,
    Inputs,
    Messages,
    Bus,
    Triggers,
    Digests,
    Leases,
    BulkControls,
    Catalog,
    Feed,
    Transfer,
    Compaction,
    SetAside,
    Workers,
):
    """The journal in PostgreSQL 14 or newer. The schema is made by `migrate`, never on the side.

    Use it as `async with PostgresStore(ConnectionSettings(dsn=...)) as store`, or `open` and `close` it.
    """

    def __init__(self, settings: ConnectionSettings | str, limits: WriterLimits | None = None) -> None:
        self._settings = ConnectionSettings(dsn=settings) if isinstance(settings, str) else settings
        self._limits = limits or WriterLimits()
        self._database = Database(self._settings)
        self._loads = loads(self._database)
        self._inputs = inputs(self._database)
        self._writer = Writer(self._settings, self._limits)

    @property
    def settings(self) -> ConnectionSettings:
        """How the database is reached."""
        return self._settings

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect.

        Raises SchemaVersionError when the schema does not fit, UnsupportedServerError, StoreUnavailableError.
        """
        await self._database.open()
        try:
            async with self._database.transaction() as connection:
                await check_schema(connection)
                await start_era_if_restored(connection)
                await _warn_unless_durable(connection)
        except BaseException:
            await self._database.close()
            raise
        self._writer.open()

    async def close(self) -> None:
        """Answer what is queued, then disconnect. Raises StoreUnavailableError if that was not possible."""
        try:
            await self._writer.close()
        finally:
            await self._database.close()

    def commit(self, commit: Commit, answer: Callable[[CommitAnswer], None]) -> None:
        """Queue a commit; `answer` is called once, on the loop. Raises OverloadedError for a start beyond the bound."""
        self._writer.submit(commit, answer)

    def watch_batches(self, on_batch: Callable[[int, float], None] | None) -> None:
        """Tell how many commits each batch has, and how many seconds it took to write; None for no more."""
        self._writer.on_batch = on_batch

    async def health(self) -> StoreHealth:
        """Whether the store can serve."""
        writer = self._writer
        reason = writer.reason
        if not reason and writer.set_aside_count:
            reason = f"{writer.set_aside_count} runs wait for a row that another transaction holds"
        return StoreHealth(
            is_available=writer.is_open and not writer.reason,
            queued_commits=writer.queued,
            queue_limit=self._limits.queue_commits,
            reason=reason if writer.is_open or reason else "the store is closed",
            needs_restart=writer.has_stopped,
        )


async def _warn_unless_durable(connection: asyncpg.Connection) -> None:
    """Say so when the server acknowledges what it has not yet written to disk: that is its operator's choice."""
    for name in ("fsync", "synchronous_commit"):
        if await connection.fetchval(f"SELECT current_setting('{name}')") == "off":
            _logger.warning("%s is off on this server: commits that it acknowledges can be lost in a crash", name)
