"""One connection that commits batches, and does not give up.

`Lane.answers` returns only what is certain. A deadlock, a lost connection, a server that restarts: the batch is sent
again, unchanged, until it returns. A row that a lost answer had written already is recognised by its commit id. What
can't be mended by sending again (a key that an outsider holds, a value that is refused) is raised, for the writer to
split the batch.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Sequence

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from ductor.journal.commit import Appended, Commit, CommitAnswer
from ductor.journal.errors import ValueRefusedError
from ductor.journal.postgres.batch import Batch, make_batch
from ductor.journal.postgres.failures import CONNECTION_ERRORS, Failure, classify, refused_field
from ductor.journal.postgres.outcomes import loser_answers, loser_arguments
from ductor.journal.postgres.settings import WRITER_PLANNER_SETTINGS, ConnectionSettings, WriterLimits
from ductor.journal.postgres.statements import LONE_COMMITS, RESOLVE_LOSERS, Statement, commit_statement

_logger = logging.getLogger(__name__)

MAX_PREPARED_STATEMENTS = 100
"""Statements that a lane keeps prepared; the least recently used goes first. Each shape of batch has its own, with a
plan that takes memory of the server's."""

_SET_LOCAL = "".join(f"SET LOCAL {name} = {value};" for name, value in WRITER_PLANNER_SETTINGS.items())


class SplitNeededError(Exception):
    """The batch as a whole can't be written: one of its commits holds it up (`lock`) or is refused (`content`)."""

    def __init__(self, failure: Failure, field: str, reason: str) -> None:
        self.failure, self.field, self.reason = failure, field, reason
        super().__init__(reason)


class Lane:
    """A connection of the writer's, made when first needed and made again when lost.

    `reason` says why the lane can't work at the moment, empty while it can. `lock_timeout_ms` may be changed at any
    time.
    """

    def __init__(self, settings: ConnectionSettings, limits: WriterLimits, name: str) -> None:
        self._settings = settings
        self._limits = limits
        self._name = name
        self._connection: asyncpg.Connection | None = None
        self._prepared: OrderedDict[str, PreparedStatement] = OrderedDict()
        self._prepared_count = 0
        self._lock_timeout_in_force_ms = -1
        self._overdue_at_s: float | None = None
        self.lock_timeout_ms = limits.lock_timeout_ms
        self.reason = ""

    async def answers(self, commits: Sequence[Commit]) -> list[CommitAnswer]:
        """What became of each commit, in their order. Raises SplitNeededError."""
        try:
            batch = make_batch(commits)
        except ValueRefusedError as error:
            raise SplitNeededError("content", error.what, error.reason) from error
        except Exception as error:
            # nothing was sent: whatever went wrong lies in what one of the commits holds
            raise SplitNeededError("content", "", f"{type(error).__name__}: {error}") from error
        attempt = 0
        while True:
            try:
                answers = await self._send(batch, commits)
            except Exception as error:
                failure = classify(error)
                if failure in ("lock", "content"):
                    field = refused_field(error, _statement(batch).parameters)
                    raise SplitNeededError(failure, field, str(error)) from error
                await self._recover(failure, error, attempt)
                attempt += 1
            else:
                self.reason = ""
                return answers

    def cut_if_overdue(self) -> None:
        """Drop the connection if the server has not answered in time: what waits for it fails, and is sent again."""
        overdue = self._overdue_at_s is not None and asyncio.get_running_loop().time() > self._overdue_at_s
        if overdue and self._connection is not None:
            self._connection.terminate()

    def terminate(self) -> None:
        """Drop the connection at once."""
        if self._connection is not None:
            self._connection.terminate()
        self._connection = None
        self._prepared.clear()

    async def close(self) -> None:
        """Say good-bye to the server and drop the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.close(timeout=self._settings.connect_timeout_s)
        except CONNECTION_ERRORS:
            connection.terminate()

    async def _send(self, batch: Batch, commits: Sequence[Commit]) -> list[CommitAnswer]:
        self._overdue_at_s = asyncio.get_running_loop().time() + self._settings.command_timeout_s
        try:
            won_count, won = await self._write(batch)
            if won_count == batch.row_count:
                return [Appended(commit.version) for commit in commits]
            losers = [commit for commit in commits if commit.version and commit.commit_id not in won]
            lost = await self._resolve(losers)
        finally:
            self._overdue_at_s = None
        return [lost.get(commit.run_id) or Appended(commit.version) for commit in commits]

    async def _write(self, batch: Batch) -> tuple[int, set[uuid.UUID]]:
        """Send the batch's statement: how many rows won, and if not all did, which."""
        statement = _statement(batch)
        if batch.is_lone and batch.parts in LONE_COMMITS:
            values = [batch.columns[name][0] for name in statement.parameters]
            return sum(row["won_count"] for row in await self._fetch(statement, values)), set()
        row = (await self._fetch(statement, statement.arguments(batch.columns)))[0]
        return row["won_count"], set(row["won"] or ())

    async def _resolve(self, losers: Sequence[Commit]) -> dict[str, CommitAnswer]:
        return loser_answers(losers, await self._fetch(RESOLVE_LOSERS, loser_arguments(losers)))

    async def _fetch(self, statement: Statement, arguments: list[object]) -> list[asyncpg.Record]:
        connection = self._connection
        if connection is None or connection.is_closed():
            connection = await self._connect()
        if self._settings.through_pooler:
            return await self._fetch_in_transaction(connection, statement, arguments)
        if self.lock_timeout_ms != self._lock_timeout_in_force_ms:
            await connection.execute(f"SET lock_timeout = {self.lock_timeout_ms:d}")
            self._lock_timeout_in_force_ms = self.lock_timeout_ms
        return await self._execute(connection, statement, arguments)

    async def _fetch_in_transaction(
        self, connection: asyncpg.Connection, statement: Statement, arguments: list[object]
    ) -> list[asyncpg.Record]:
        """Send with settings that hold for one transaction: a pooler hands the next one to any connection it likes."""
        await connection.execute(f"BEGIN; {_SET_LOCAL} SET LOCAL lock_timeout = {self.lock_timeout_ms:d}")
        try:
            rows = await self._execute(connection, statement, arguments)
        except Exception:
            if not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        await connection.execute("COMMIT")
        return rows

    async def _execute(
        self, connection: asyncpg.Connection, statement: Statement, arguments: list[object]
    ) -> list[asyncpg.Record]:
        if not self._settings.prepared_statements:
            return await connection.fetch(statement.text, *arguments)
        prepared = self._prepared.get(statement.text)
        if prepared is None:
            prepared = await self._prepare(connection, statement.text)
        self._prepared.move_to_end(statement.text)
        return await prepared.fetch(*arguments)

    async def _prepare(self, connection: asyncpg.Connection, text: str) -> PreparedStatement:
        """Prepare under a name: the driver sends an unnamed statement to be parsed and planned at every execution."""
        self._prepared_count += 1
        prepared = await connection.prepare(text, name=f"ductor_{self._prepared_count}")
        self._prepared[text] = prepared
        if len(self._prepared) > MAX_PREPARED_STATEMENTS:
            self._prepared.popitem(last=False)  # the driver closes it when it prepares the next one
        return prepared

    async def _connect(self) -> asyncpg.Connection:
        self.terminate()
        connection: asyncpg.Connection = await asyncpg.connect(
            self._settings.dsn,
            timeout=self._settings.connect_timeout_s,
            statement_cache_size=0,
            server_settings=self._settings.of_session({"application_name": self._name, **WRITER_PLANNER_SETTINGS}),
        )
        self._connection = connection
        self._lock_timeout_in_force_ms = -1
        return connection

    async def _recover(self, failure: Failure, error: Exception, attempt: int) -> None:
        """Put the lane in order before the batch is sent again; pause unless this is the first trouble with it."""
        if failure != "again":
            self.terminate()
        if attempt == 0:
            return
        if not self.reason:
            _logger.warning("%s: the database does not take commits; trying on: %r", self._name, error)
        self.reason = f"{type(error).__name__}: {error}"
        pause_s = self._limits.backoff_first_s * 2 ** min(attempt - 1, 16)
        await asyncio.sleep(min(pause_s, self._limits.backoff_max_s))


def _statement(batch: Batch) -> Statement:
    lone = LONE_COMMITS.get(batch.parts) if batch.is_lone else None
    return commit_statement(batch.parts) if lone is None else lone
