"""Projectors for tests: impatient ones, and a database that fails at a point that was chosen."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Literal, cast

import asyncpg

from ductor.journal.postgres import PostgresStore
from ductor.projections.builtin import builtin_projections
from ductor.projections.database import ModelDatabase
from ductor.projections.model import Projection
from ductor.projections.projector import Projector, ProjectorOptions

IMPATIENT = ProjectorOptions(batch_rows=40, claim_ms=0, lease_ms=0, busy_poll_ms=5, idle_poll_ms=20)
"""Small batches; each turn claims anew, and a claim holds nobody up."""


class WatchedProjector(Projector):
    """Tells when it has taken a turn."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turned = asyncio.Event()

    async def turn(self) -> bool:
        try:
            return await super().turn()
        finally:
            self._turned.set()

    async def turned(self) -> None:
        """Wait for the next turn."""
        self._turned.clear()
        await self._turned.wait()


def projector(
    store: PostgresStore,
    projections: Sequence[Projection] | None = None,
    *,
    leader: str = "host",
    options: ProjectorOptions = IMPATIENT,
    database: ModelDatabase | None = None,
) -> WatchedProjector:
    chosen = builtin_projections() if projections is None else projections
    return WatchedProjector(store, chosen, leader=leader, options=options, database=database)


async def project(store: PostgresStore, projections: Sequence[Projection] | None = None) -> None:
    """Bring the models up to date."""
    one = projector(store, projections)
    await one.catch_up()
    await one.stop()


class KilledError(ConnectionResetError):
    """The connection was killed on purpose."""


class FailingDatabase(ModelDatabase):
    """Kills the connection at the nth operation, before the server has seen it or after it has answered."""

    def __init__(self, store: PostgresStore, at: int, when: Literal["before", "after"]) -> None:
        super().__init__(store.settings)
        self.left = at
        self.when = when

    @property
    def has_killed(self) -> bool:
        return self.left <= 0

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        async with super().connection() as real:
            yield cast("asyncpg.Connection", _Connection(self, real))

    async def do(self, real: asyncpg.Connection, operation: Any) -> Any:
        self.left -= 1
        if self.left != 0:
            return await operation()
        if self.when == "after":
            await operation()
        real.terminate()
        raise KilledError("killed by the test")


class _Connection:
    def __init__(self, database: FailingDatabase, real: asyncpg.Connection) -> None:
        self._database, self._real = database, real

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name not in ("execute", "executemany", "fetch", "fetchval", "fetchrow"):
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            return await self._database.do(self._real, lambda: method(*arguments, **named))

        return call

    def transaction(self) -> "_Transaction":
        return _Transaction(self._database, self._real)


class _Transaction:
    def __init__(self, database: FailingDatabase, real: asyncpg.Connection) -> None:
        self._database, self._real = database, real
        self._inner = real.transaction()

    async def __aenter__(self) -> None:
        await self._database.do(self._real, self._inner.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._database.do(self._real, self._inner.commit)
        elif not self._real.is_closed():
            await self._inner.rollback()
