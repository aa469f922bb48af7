"""Messages that commit around the instant in which their run is continued, held back by a transaction."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore, send_message_on
from ductor.journal.postgres.messages import CONTINUES_TOO_FAST, PASSING_TRIES, Messages
from ductor.journal.records import MessageReceipt
from tests.contracts.messages import disposed, sent_well, signal, waiting_ids
from tests.contracts.test_store_chains import chain_of, continuing
from tests.contracts.writers import RunWriter, send_well
from tests.journal.waiting import until
from tests.postgres_fixtures import Database


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
async def transaction(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the caller's, in a transaction that goes on until it says `COMMIT`."""
    connection = await asyncpg.connect(database.dsn)
    await connection.execute("BEGIN")
    yield connection
    await connection.close()


async def is_waiting_for_a_lock(store: PostgresStore, database: Database) -> bool:
    connection = await asyncpg.connect(database.dsn)
    try:
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        return bool(await connection.fetchval(query))
    finally:
        await connection.close()


async def continued(store: PostgresStore, run: RunWriter, chain: RunWriter, iteration: int) -> RunWriter:
    successor, commit = continuing(run, chain, iteration)
    await send_well(store, commit)
    return successor


async def test_a_second_sender_whose_run_was_continued_while_it_waited_for_the_first_hears_of_a_duplicate(
    store: PostgresStore, transaction: asyncpg.Connection, database: Database
) -> None:
    """The second one names another run of the chain, and finds the message with none that it knows of."""
    first, second = await chain_of(store, 2)
    assert await send_message_on(transaction, second.run_id, signal("m1")) is not None
    sending = asyncio.create_task(store.send_message(first.run_id, signal("m1")))
    await until(lambda: is_waiting_for_a_lock(store, database))
    third = await continued(store, second, first, 2)
    await transaction.execute("COMMIT")

    receipt = await sending
    assert isinstance(receipt, MessageReceipt)
    assert (receipt.verdict, receipt.run_id) == ("duplicate", third.run_id)
    assert await waiting_ids(store, third) == ["m1"]


async def test_a_message_that_was_left_behind_has_a_receipt_by_each_run_of_the_chain(
    store: PostgresStore, transaction: asyncpg.Connection
) -> None:
    first, second = await chain_of(store, 2)
    assert await send_message_on(transaction, second.run_id, signal("m1")) is not None
    third = await continued(store, second, first, 2)
    await transaction.execute("COMMIT")
    for run in (first, second, third):
        receipt = await store.message_receipt(run.run_id, "m1")
        assert receipt is not None
        assert receipt.run_id == second.run_id


async def test_a_message_of_a_long_transaction_that_was_sent_again_meanwhile_is_heard_once(
    store: PostgresStore, transaction: asyncpg.Connection
) -> None:
    first, second = await chain_of(store, 2)
    assert await send_message_on(transaction, second.run_id, signal("m1")) is not None
    third = await continued(store, second, first, 2)
    await sent_well(store, third, signal("m1"))
    successor, commit = continuing(third, first, 3, **disposed("m1", "consumed"))
    await send_well(store, commit)
    await transaction.execute("COMMIT")

    await sent_well(store, first, signal("m2"))
    assert await waiting_ids(store, successor) == ["m2"]
    receipt = await store.message_receipt(first.run_id, "m1")
    assert receipt is not None
    assert (receipt.run_id, receipt.disposition) == (third.run_id, "consumed")


async def test_a_sender_that_never_catches_up_is_refused_and_told_to_send_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the run finds one more message left behind."""
    first, second = await chain_of(store, 2)
    tries = 0

    async def behind(query: str, /, **values: object) -> list[dict[str, object]]:
        nonlocal tries
        if query == "pass_on":
            return []
        tries += 1
        row = dict.fromkeys(("accepted_position", "position", "status", "is_full"))
        return [{**row, "run_id": second.run_id, "left_behind_run_id": first.run_id}]

    messages = Messages()
    messages._database = type("Behind", (), {"fetch": staticmethod(behind)})()
    receipt = await messages.send_message(first.run_id, signal("m1"))
    assert receipt is not None
    assert (receipt.verdict, receipt.reason, tries) == ("refused", CONTINUES_TOO_FAST, PASSING_TRIES)
