"""Connections of callers: those of asyncpg, psycopg 3 and SQLAlchemy, made to look alike.

What is sent inside a caller's transaction goes over his own connection, whatever driver it belongs to:

| given | what is used |
| --- | --- |
| `asyncpg.Connection`, or one out of a pool | itself |
| `psycopg.AsyncConnection` | cursors of its own that take numbered parameters; nothing of the connection is changed |
| SQLAlchemy's `AsyncConnection` | the connection of asyncpg or psycopg below it, once its transaction has begun |
| SQLAlchemy's `AsyncSession` | as its `AsyncConnection` |

No driver is imported that its caller has not imported.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, cast

import asyncpg

from ductor.definitions.errors import DuctorError

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

    AnyConnection: TypeAlias = "asyncpg.Connection | psycopg.AsyncConnection[Any] | AsyncConnection | AsyncSession"


class UnknownConnectionError(DuctorError):
    """A connection is of no driver that is known here.

    Attributes:
        kind: what it is.
    """

    code = "unknown_connection"

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(
            f"a {kind} can't be used as `connection`: give one of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's "
            "AsyncConnection or AsyncSession over one of these"
        )


class CallersConnection(Protocol):
    """What is needed of a connection; asyncpg's have it."""

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        """The rows of a statement with numbered parameters; columns are found by number and by name."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """A transaction, or a savepoint inside of one."""
        ...


async def callers_connection(given: "AnyConnection") -> CallersConnection:
    """The connection to write through. Raises UnknownConnectionError, and what SQLAlchemy raises."""
    connection: object = given
    alchemy = sys.modules.get("sqlalchemy.ext.asyncio")
    if alchemy is not None:
        if isinstance(connection, alchemy.AsyncSession):
            connection = await connection.connection()
        if isinstance(connection, alchemy.AsyncConnection):
            connection = await _below(connection)
    psycopg_module = sys.modules.get("psycopg")
    if psycopg_module is not None and isinstance(connection, psycopg_module.AsyncConnection):
        return PsycopgConnection(connection)
    if isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        return cast("CallersConnection", connection)
    raise UnknownConnectionError(f"{type(given).__module__}.{type(given).__qualname__}")


async def _below(connection: "AsyncConnection") -> object:
    """The driver's connection. SQLAlchemy begins a transaction with its first statement, and knows of no other one."""
    driver: Any = (await connection.get_raw_connection()).driver_connection
    is_begun = driver.is_in_transaction() if isinstance(driver, asyncpg.Connection) else not _is_idle(driver)
    if not is_begun or not connection.in_transaction():
        await connection.exec_driver_sql("SELECT 1")
    return driver


def _is_idle(connection: "psycopg.AsyncConnection[Any]") -> bool:
    """Whether no transaction has begun, which in psycopg is what the first statement does."""
    return connection.info.transaction_status.name == "IDLE"


class PsycopgConnection:
    """See `CallersConnection`. JSON comes as text, as it does from asyncpg."""

    def __init__(self, connection: "psycopg.AsyncConnection[Any]") -> None:
        self._connection = connection

    async def fetch(self, query: str, *arguments: object) -> Sequence[Any]:
        """See `CallersConnection`."""
        import psycopg  # noqa: PLC0415 - whoever has such a connection has the driver
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        async with psycopg.AsyncRawCursor(self._connection, row_factory=_rows_by_name) as cursor:
            for name in ("json", "jsonb"):
                cursor.adapters.register_loader(name, TextLoader)
            await cursor.execute(query.encode(), arguments, prepare=False)
            return await cursor.fetchall() if cursor.description is not None else ()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `CallersConnection`. A transaction that its owner has yet to begin is begun for him: he commits it."""
        if _is_idle(self._connection) and not self._connection.autocommit:
            await self._connection.execute("SELECT 1")
        async with self._connection.transaction():
            yield


class NamedRow(tuple[Any, ...]):
    """A row whose columns are found by number and by name. `names`: their numbers."""

    __slots__ = ()
    names: ClassVar[dict[str, int]] = {}

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names[key] if isinstance(key, str) else key)


def _rows_by_name(cursor: "psycopg.AsyncCursor[Any]") -> Any:
    names = {column.name: number for number, column in enumerate(cursor.description or ())}
    return type("NamedRow", (NamedRow,), {"names": names, "__slots__": ()})
