"""The pool for reads and single writes: queries by name, bounded waiting, retry where repeating is harmless."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol, cast

import asyncpg

from ductor.journal.errors import OverloadedError, StoreUnavailableError, ValueRefusedError
from ductor.journal.postgres.callers import CallersConnection
from ductor.journal.postgres.failures import CONNECT_ERRORS, CONNECTION_ERRORS, classify, refused_field, unavailable
from ductor.journal.postgres.outage import Outage
from ductor.journal.postgres.pool import close_pool, open_pool
from ductor.journal.postgres.settings import PLANNER_SETTINGS, ConnectionSettings
from ductor.journal.postgres.statements import QUERIES, Statement

ATTEMPTS = 3
WAITING_LIMIT = 10_000
STATEMENT_CACHE_SIZE = 100


class Fetch(Protocol):
    """How a query's rows are had: from the pool, or on a connection of the caller's."""

    async def __call__(self, query: str, **values: object) -> Sequence[asyncpg.Record]:
        """The rows of a query."""
        ...


def fetch_on(connection: CallersConnection) -> Fetch:
    """Queries on this connection alone, inside whatever transaction it is in. Nothing is sent a second time."""

    async def fetch(query: str, **values: object) -> Sequence[asyncpg.Record]:
        statement = QUERIES[query]
        return await connection.fetch(statement.text, *statement.arguments(values))

    return fetch


class Database:
    """A pool of connections to one database.

    Every query here may be sent twice: reads, and writes that are idempotent by their key.
    """

    def __init__(self, settings: ConnectionSettings, *, user: str = "the store") -> None:
        """Args: `user` is whose connections these are, for the log."""
        self._settings = settings
        self._outage = Outage(f"the database of {user}")
        self._pool: asyncpg.Pool | None = None
        self._active = 0

    async def open(self) -> None:
        """Connect. Raises StoreUnavailableError."""
        pool = await open_pool(
            self._settings,
            min_size=0,  # a pool that keeps a floor logs a traceback for each try while the server is away
            max_size=self._settings.pool_size,
            statement_cache_size=STATEMENT_CACHE_SIZE,
            server_settings={"application_name": "ductor", **PLANNER_SETTINGS},
        )
        try:
            async with pool.acquire(timeout=self._settings.connect_timeout_s):
                self._pool = pool
        except CONNECT_ERRORS as error:
            pool.terminate()
            raise unavailable(error) from error

    async def close(self) -> None:
        """Disconnect, waiting for queries that run."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await close_pool(pool, self._settings)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection inside a transaction. Raises StoreUnavailableError."""
        pool = self._pool
        if pool is None:
            raise StoreUnavailableError("the store is not open")
        try:
            async with pool.acquire(timeout=self._settings.command_timeout_s) as proxied, proxied.transaction():
                # the pool's proxy has every method of the connection that it stands for
                yield cast("asyncpg.Connection", proxied)
        except CONNECTION_ERRORS as error:
            raise unavailable(error) from error

    async def fetch(self, query: str, **values: object) -> list[asyncpg.Record]:
        """The rows of a query.

        Raises StoreUnavailableError, ValueRefusedError for an argument the database refuses, OverloadedError when too
        many queries wait.
        """
        return await self.fetch_statement(query, QUERIES[query], values)

    async def fetch_statement(
        self, query: str, statement: Statement, values: Mapping[str, object]
    ) -> list[asyncpg.Record]:
        """The rows of a statement that was put together for the occasion; `query` names it. Raises as `fetch` does."""
        if self._active >= WAITING_LIMIT:
            raise OverloadedError(self._active, WAITING_LIMIT)
        self._active += 1
        try:
            return await self._fetch(query, statement, statement.arguments(values))
        finally:
            self._active -= 1

    async def fetch_row(self, query: str, **values: object) -> asyncpg.Record | None:
        """The first row of a query, or None. Raises as `fetch` does."""
        rows = await self.fetch(query, **values)
        return rows[0] if rows else None

    async def _fetch(self, query: str, statement: Statement, arguments: list[object]) -> list[asyncpg.Record]:
        attempt = 1
        while True:
            pool = self._pool
            if pool is None:
                raise StoreUnavailableError("the store is not open")
            try:
                async with pool.acquire(timeout=self._settings.command_timeout_s) as connection:
                    if self._settings.through_pooler and not self._settings.prepared_statements:
                        # an unnamed statement lives in two messages; only a transaction keeps them on one connection
                        async with connection.transaction():
                            rows = await connection.fetch(statement.text, *arguments)
                    else:
                        rows = await connection.fetch(statement.text, *arguments)
            except Exception as error:
                failure = classify(error)
                if failure == "content":
                    raise ValueRefusedError(query, refused_field(error, statement.parameters), str(error)) from error
                # a server that did not answer in time gets no second chance to keep the caller waiting
                if attempt >= ATTEMPTS or isinstance(error, TimeoutError):
                    raise self._away(error) from error
                attempt += 1
            else:
                if self._outage.failed:
                    self._outage.note_answer()
                return rows

    def _away(self, error: Exception) -> StoreUnavailableError:
        away = unavailable(error)
        self._outage.note_failure(away)
        return away
