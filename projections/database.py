"""Connections for read models: few, made when they are first needed, apart from those of the journal's store.

The store's own connections are told to look rows up by index only; questions about many rows need the planner's
judgement. Nothing is kept in a session: what is set is set for a transaction.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import asyncpg

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres.failures import CONNECTION_ERRORS, unavailable
from ductor.journal.postgres.pool import close_pool, open_pool
from ductor.journal.postgres.settings import ConnectionSettings

POOL_SIZE = 3
"""Connections for read models of one host or client: the projector's, and questions."""
STATEMENT_CACHE_SIZE = 200

PASSING_FAILURES: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InvalidCachedStatementError,
)
"""What a server answers that says nothing of the statement: sent again it may well succeed."""
LOST_CONNECTION: tuple[type[Exception], ...] = (
    *PASSING_FAILURES,
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""The same of a statement that is known to be right: whatever the driver says then is about the connection."""
DATABASE_AWAY: tuple[type[Exception], ...] = (*LOST_CONNECTION, StoreUnavailableError)
"""What is tried again after a pause."""


class ModelDatabase:
    """A pool of connections that opens when it is first used."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        """Disconnect, waiting for what runs as long as a connection may take."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await close_pool(pool, self._settings)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection. Raises StoreUnavailableError when there is none to be had."""
        pool = await self._open()
        try:
            connection = await pool.acquire(timeout=self._settings.command_timeout_s)
        except CONNECTION_ERRORS as error:
            raise unavailable(error) from error
        try:
            # the pool's proxy has every method of the connection that it stands for
            yield cast("asyncpg.Connection", connection)
        finally:
            await pool.release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection inside a transaction. The driver's errors come as they are."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def _open(self) -> asyncpg.Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await open_pool(
                    self._settings,
                    min_size=0,
                    max_size=POOL_SIZE,
                    statement_cache_size=STATEMENT_CACHE_SIZE,
                    server_settings={"application_name": "ductor projections", "jit": "off"},
                )
            return self._pool
