"""Start, signal and publish inside the caller's own transaction: all of it happens with the transaction, or nothing."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

import ductor
from ductor.definitions.build import wait, workflow
from tests.postgres_fixtures import Database

ORDER = workflow("order", wait("paid", signal="paid", next="sent"), wait("sent", event="sent"))


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """The caller's own."""
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("CREATE TABLE orders (id text PRIMARY KEY)")
    yield connection
    await connection.close()


async def test_what_commits_happens(database: Database, connection: asyncpg.Connection):
    async with ductor.Host(definitions=ORDER, database=database.dsn) as host:
        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ('o-1')")
            run = await host.start("order", {}, key="o-1", connection=connection)
            assert (await host.start("order", {}, key="o-1", connection=connection)).run_id == run.run_id
            await run.signal("paid", {"by": "ada"}, connection=connection)
            await host.publish_event("sent", {"parcel": 1}, event_id="e1", connection=connection)
            assert list(await host.runs()) == []
            with pytest.raises(ductor.RunNotFoundError):
                await run.status()
        assert run.is_new
        while "sent" not in [step.ref for step in (await run.status()).steps if step.status == "waiting"]:
            pass
        async with connection.transaction():
            await host.publish_event("sent", {"parcel": 2}, connection=connection)
        assert await run.result(timeout=30) == {"sent": {"parcel": 2}}


async def test_what_is_rolled_back_never_happened(database: Database, connection: asyncpg.Connection):
    async with ductor.Host(definitions=ORDER, database=database.dsn) as host:
        run = await host.start("order", {})
        transaction = connection.transaction()
        await transaction.start()
        other = await host.start("order", {}, key="o-2", connection=connection)
        await run.signal("paid", request_id="s1", connection=connection)
        await host.publish_event("sent", event_id="e1", connection=connection)
        await transaction.rollback()
        with pytest.raises(ductor.RunNotFoundError):
            await other.status()
        assert await run.receipt("s1") is None
        assert (await host.publish_event("sent", event_id="e1")).verdict == "accepted"
        assert (await host.start("order", {}, key="o-2")).is_new


async def test_a_refusal_leaves_the_transaction_as_it_was(database: Database, connection: asyncpg.Connection):
    async with ductor.Client(database.dsn) as client:
        await client.publish(ORDER)
        async with connection.transaction():
            await connection.execute("INSERT INTO orders VALUES ('o-3')")
            with pytest.raises(ductor.DefinitionNotFoundError):
                await client.start("ordr", {}, connection=connection)
            with pytest.raises(ductor.ValueRefusedError):
                await client.publish_event("sent", float("nan"), connection=connection)
            nobody = client.run("01890000-0000-7000-8000-000000000000")
            with pytest.raises(ductor.RunNotFoundError):
                await nobody.signal("paid", connection=connection)
            started = await client.start("order", {}, connection=connection)
        assert await connection.fetchval("SELECT count(*) FROM orders") == 1
        assert (await started.status()).status == "pending"
