"""Start, send and publish inside the caller's own transaction: all of it happens with that transaction, or nothing."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.commit import Appended, BusEvent, Conflict, HeadUpdate, Payload, StartKeyTaken
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.postgres import PostgresStore, WriterLimits, publish_event_on, send_message_on, start_on
from tests.journal.postgres.commits import WAIT_S, answered, send, start, started_runs, tick
from tests.journal.waiting import until
from tests.postgres_fixtures import Database

NOBODY = "01890000-0000-7000-8000-000000000000"
EVENT = BusEvent(tenant="acme", event_id="e1", name="shipped", payload={"n": 1})
LATER_US = 10**18


def signal(message_id: str = "m1") -> Message:
    return Message(id=message_id, kind="signal", name="paid", payload=[1])


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn, WriterLimits(lock_timeout_ms=20, split_lock_timeout_ms=10)) as store:
        yield store


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """The caller's own connection, with nobody's settings."""
    connection = await asyncpg.connect(database.dsn)
    yield connection
    await connection.close()


async def backend_waits(connection: asyncpg.Connection) -> bool:
    """Whether some backend waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(await connection.fetchval(query))


async def test_everything_is_there_once_the_transaction_commits(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    commit = start(key="k", payloads=(Payload("h", b"1"),))
    (other,) = await started_runs(store, 1)
    transaction = connection.transaction()
    await transaction.start()
    assert await start_on(connection, commit) == Appended(1)
    sent = await send_message_on(connection, commit.run_id, signal())
    sent_to_other = await send_message_on(connection, other, signal())
    published = await publish_event_on(connection, EVENT)
    assert sent is not None
    assert sent_to_other is not None
    assert (sent.verdict, sent_to_other.verdict, published.verdict) == ("accepted",) * 3
    assert await store.load(commit.run_id) is None
    assert await store.message_receipt(other, "m1") is None
    assert list(await store.unmatched_events(LATER_US, 10)) == []
    await transaction.commit()

    loaded = await store.load(commit.run_id)
    assert loaded is not None
    assert (len(loaded.tail), loaded.payloads) == (1, ())
    assert await store.payload(commit.run_id, "h") == b"1"
    assert [message.id for message in loaded.messages] == ["m1"]
    assert await store.message_receipt(other, "m1") is not None
    assert [event.position for event in await store.unmatched_events(LATER_US, 10)] == [published.position]
    assert await store.find_start_key("acme", "order", "k") == commit.run_id
    assert set(await store.runs_to_wake(0, 10)) == {commit.run_id, other}


async def test_nothing_is_there_once_it_rolls_back(store: PostgresStore, connection: asyncpg.Connection) -> None:
    commit = start(key="k")
    (other,) = await started_runs(store, 1)
    transaction = connection.transaction()
    await transaction.start()
    await start_on(connection, commit)
    await send_message_on(connection, other, signal())
    await publish_event_on(connection, EVENT)
    await transaction.rollback()

    assert await store.head(commit.run_id) is None
    assert await store.find_start_key("acme", "order", "k") is None
    assert await answered(store, start(key="k")) == [Appended(1)]
    receipt = await store.send_message(other, signal())
    assert receipt is not None
    assert receipt.verdict == "accepted"
    assert (await store.publish_event(EVENT)).verdict == "accepted"


async def test_outside_of_a_transaction_each_is_one_of_its_own(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    commit = start(key="k")
    assert await start_on(connection, commit) == Appended(1)
    assert await store.head(commit.run_id) is not None


async def test_a_start_is_idempotent(store: PostgresStore, connection: asyncpg.Connection) -> None:
    commit, rival = start(key="k"), start(key="k")
    async with connection.transaction():
        assert await start_on(connection, commit) == Appended(1)
        assert await start_on(connection, commit) == Appended(1)
        assert await start_on(connection, rival) == StartKeyTaken(commit.run_id)
        assert await start_on(connection, start(commit.run_id)) == Conflict(commit.run_id, 1)
        assert await start_on(connection, tick(commit.run_id, 2)) == Conflict(commit.run_id, 2)
    assert await store.head(rival.run_id) is None
    assert [row.version for row in await store.history(commit.run_id)] == [1]
    assert await answered(store, commit, rival) == [Appended(1), StartKeyTaken(commit.run_id)]


async def test_a_refused_value_leaves_the_callers_transaction_as_it_was(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    (run_id,) = await started_runs(store, 1)
    async with connection.transaction():
        assert (await publish_event_on(connection, EVENT)).verdict == "accepted"
        with pytest.raises(ValueRefusedError):
            await send_message_on(connection, run_id, Message(id="", kind="signal"))
        with pytest.raises(ValueRefusedError):
            await publish_event_on(connection, BusEvent(tenant="acme", event_id="e2", name=""))
        with pytest.raises(asyncpg.DataError):
            await start_on(connection, start(events=b"["))
        assert await send_message_on(connection, NOBODY, signal()) is None
        assert await send_message_on(connection, run_id, signal(), tenant="globex") is None
    assert len(await store.unmatched_events(LATER_US, 10)) == 1


async def test_a_start_that_meets_a_rival_in_mid_statement_waits_for_it(
    store: PostgresStore, connection: asyncpg.Connection, database: Database
) -> None:
    rival_connection = await asyncpg.connect(database.dsn)
    watcher = await asyncpg.connect(database.dsn)
    try:
        commit, rival = start(key="k"), start(key="k")
        transaction = rival_connection.transaction()
        await transaction.start()
        assert await start_on(rival_connection, rival) == Appended(1)
        waiting = asyncio.create_task(start_on(connection, commit))
        await until(lambda: backend_waits(watcher))
        await transaction.commit()
        assert await asyncio.wait_for(waiting, WAIT_S) == StartKeyTaken(rival.run_id)
    finally:
        await rival_connection.close()
        await watcher.close()


async def test_who_sends_the_same_message_meanwhile_waits_and_gets_its_receipt(
    store: PostgresStore, connection: asyncpg.Connection, database: Database
) -> None:
    (run_id,) = await started_runs(store, 1)
    watcher = await asyncpg.connect(database.dsn)
    try:
        transaction = connection.transaction()
        await transaction.start()
        first = await send_message_on(connection, run_id, signal())
        published = await publish_event_on(connection, EVENT)
        sending = asyncio.create_task(store.send_message(run_id, signal()))
        publishing = asyncio.create_task(store.publish_event(EVENT))
        await until(lambda: backend_waits(watcher))
        await transaction.commit()
        second, again = await asyncio.wait_for(asyncio.gather(sending, publishing), WAIT_S)
    finally:
        await watcher.close()
    assert first is not None
    assert second is not None
    assert (second.verdict, second.position, second.at_us) == ("duplicate", first.position, first.at_us)
    assert (again.verdict, again.position) == ("duplicate", published.position)


async def test_a_callers_open_transaction_holds_up_no_other_run(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    held, *others = await started_runs(store, 10)
    transaction = connection.transaction()
    await transaction.start()
    await publish_event_on(connection, EVENT)
    waiting = send(store, tick(held, 2, published=(EVENT,)))
    assert await answered(store, *(tick(run_id, 2) for run_id in others)) == [Appended(2)] * 9
    assert not waiting.done()
    await transaction.rollback()
    assert await asyncio.wait_for(waiting, WAIT_S) == Appended(2)
    assert len(await store.unmatched_events(LATER_US, 10)) == 1


async def test_a_run_that_closes_meanwhile_has_the_message_undelivered_and_not_lost(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    (run_id,) = await started_runs(store, 1)
    async with connection.transaction():
        receipt = await send_message_on(connection, run_id, signal())
        assert receipt is not None
        assert receipt.verdict == "accepted"
        assert await answered(store, tick(run_id, 2, head=HeadUpdate(status="completed"))) == [Appended(2)]
    assert list(await store.runs_to_wake(0, 10)) == [run_id]
    inputs = await store.inputs(run_id)
    assert inputs is not None
    assert [message.id for message in inputs.messages] == ["m1"]
