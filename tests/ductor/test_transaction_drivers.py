"""Start, signal and publish inside the caller's own transaction, for each driver that a caller may have."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import ductor
from ductor.definitions.build import wait, workflow
from ductor.journal.postgres.callers import UnknownConnectionError
from tests.postgres_fixtures import Database

LARGE = "x" * 100_000
ORDER = workflow("order", wait("paid", signal="paid", next="sent"), wait("sent", event="sent"))


class Caller:
    """A connection of some driver, and how its owner uses it."""

    def __init__(
        self,
        connection: Any,
        transaction: Callable[[], AbstractAsyncContextManager[Any]],
        execute: Callable[[str], Any],
    ) -> None:
        self.connection, self.transaction, self.execute = connection, transaction, execute


@asynccontextmanager
async def psycopg_caller(dsn: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield Caller(connection, connection.transaction, connection.execute)


@asynccontextmanager
async def alchemy_caller(dsn: str, driver: str, *, as_session: bool) -> AsyncIterator[Caller]:
    engine = create_async_engine(dsn.replace("postgresql://", f"postgresql+{driver}://"))
    opened: Any = AsyncSession(engine) if as_session else engine.connect()
    async with opened as connection:

        async def execute(statement: str) -> None:
            await connection.execute(text(statement))

        yield Caller(connection, connection.begin, execute)
    await engine.dispose()


KINDS: dict[str, Callable[[str], AbstractAsyncContextManager[Caller]]] = {
    "psycopg": psycopg_caller,
    "sqlalchemy-asyncpg": lambda dsn: alchemy_caller(dsn, "asyncpg", as_session=False),
    "sqlalchemy-psycopg": lambda dsn: alchemy_caller(dsn, "psycopg", as_session=False),
    "session-asyncpg": lambda dsn: alchemy_caller(dsn, "asyncpg", as_session=True),
    "session-psycopg": lambda dsn: alchemy_caller(dsn, "psycopg", as_session=True),
}


@pytest.fixture(params=list(KINDS))
async def caller(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Caller]:
    """The caller's own."""
    async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
        await connection.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    async with KINDS[request.param](database.dsn) as one:
        yield one


async def test_what_commits_happens(database: Database, caller: Caller):
    async with ductor.Host(definitions=ORDER, database=database.dsn) as host:
        async with caller.transaction():
            run = await host.start("order", {"text": LARGE}, key="o-1", connection=caller.connection)
            again = await host.start("order", {}, key="o-1", connection=caller.connection)
            assert (run.is_new, again.is_new, again.run_id) == (True, False, run.run_id)
            await caller.execute("INSERT INTO orders VALUES ('o-1')")
            receipt = await run.signal("paid", {"by": "ada", "text": LARGE}, connection=caller.connection)
            assert receipt.verdict == "accepted"
            event = await host.publish_event("sent", {"parcel": 1}, event_id="e1", connection=caller.connection)
            assert event.verdict == "accepted"
            assert list(await host.runs()) == []
        async with caller.transaction():
            repeated = await host.publish_event("sent", {"parcel": 1}, event_id="e1", connection=caller.connection)
            assert repeated.verdict == "duplicate"
        while "sent" not in [step.ref for step in (await run.status()).steps if step.status == "waiting"]:
            pass
        async with caller.transaction():
            await host.publish_event("sent", {"parcel": 2}, connection=caller.connection)
        assert await run.result(timeout=30) == {"sent": {"parcel": 2}}


async def test_what_is_rolled_back_never_happened(database: Database, caller: Caller):
    async with ductor.Host(definitions=ORDER, database=database.dsn) as host:
        run = await host.start("order", {})
        others: list[ductor.RunHandle] = []

        async def fail_at_last() -> None:
            async with caller.transaction():
                others.append(await host.start("order", {}, key="o-2", connection=caller.connection))
                await run.signal("paid", request_id="s1", connection=caller.connection)
                await host.publish_event("sent", event_id="e1", connection=caller.connection)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail_at_last()
        with pytest.raises(ductor.RunNotFoundError):
            await others[0].status()
        assert await run.receipt("s1") is None
        assert (await host.publish_event("sent", event_id="e1")).verdict == "accepted"
        assert (await host.start("order", {}, key="o-2")).is_new


async def test_a_refusal_leaves_the_transaction_as_it_was(database: Database, caller: Caller):
    async with ductor.Client(database.dsn) as client:
        await client.publish(ORDER)
        async with caller.transaction():
            await caller.execute("INSERT INTO orders VALUES ('o-3')")
            with pytest.raises(ductor.DefinitionNotFoundError):
                await client.start("ordr", {}, connection=caller.connection)
            nobody = client.run("01890000-0000-7000-8000-000000000000")
            with pytest.raises(ductor.RunNotFoundError):
                await nobody.signal("paid", connection=caller.connection)
            started = await client.start("order", {}, connection=caller.connection)
        assert (await started.status()).status == "pending"
    async with await psycopg.AsyncConnection.connect(database.dsn) as connection:
        row = await (await connection.execute("SELECT count(*) FROM orders")).fetchone()
        assert row == (1,)


async def test_what_psycopg_has_begun_without_being_asked_is_its_owners_to_commit(database: Database):
    async with ductor.Client(database.dsn) as client, await psycopg.AsyncConnection.connect(database.dsn) as connection:
        await client.publish(ORDER)
        run = await client.start("order", {}, connection=connection)
        await connection.rollback()
        with pytest.raises(ductor.RunNotFoundError):
            await run.status()
        run = await client.start("order", {}, connection=connection)
        await connection.commit()
        assert (await run.status()).status == "pending"
        await connection.set_autocommit(True)
        assert (await (await client.start("order", {}, connection=connection)).status()).status == "pending"


async def test_what_is_no_connection_is_refused(database: Database):
    async with ductor.Client(database.dsn) as client:
        await client.publish(ORDER)
        with pytest.raises(UnknownConnectionError, match=r"builtins\.object"):
            await client.start("order", {}, connection=object())  # type: ignore[arg-type]
        with psycopg.Connection.connect(database.dsn) as blocking, pytest.raises(UnknownConnectionError):
            await client.start("order", {}, connection=blocking)  # type: ignore[arg-type]
