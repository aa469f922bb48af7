"""Rows of many runs are locked in the order of their ids, whatever the order in which a caller names them."""

import asyncio

import asyncpg

from ductor.journal.commit import BusEvent
from ductor.journal.events import Message
from ductor.journal.postgres import PostgresStore, send_message_on
from tests.journal.postgres.commits import WAIT_S, started_runs
from tests.journal.waiting import until
from tests.postgres_fixtures import Database

EVENT = BusEvent(tenant="acme", event_id="e", name="shipped")
HELD_MESSAGE = (
    "INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, by, at_us)"
    " VALUES ($1, 'event:e', 'event', 'shipped', '', '', 0)"
)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


async def test_a_delivery_that_waits_for_the_first_run_holds_no_later_one(database: Database) -> None:
    outsider = await asyncpg.connect(database.dsn)
    bystander = await asyncpg.connect(database.dsn, server_settings={"lock_timeout": "2s"})
    try:
        async with PostgresStore(database.dsn) as store:
            runs = await started_runs(store, 20)
            transaction = outsider.transaction()
            await transaction.start()
            await outsider.execute(HELD_MESSAGE, runs[0])
            delivery = asyncio.create_task(store.deliver_event(EVENT, runs[::-1]))

            async def is_waiting() -> bool:
                return bool(await bystander.fetchval(WAITING))

            await until(is_waiting)
            await bystander.execute(HELD_MESSAGE, runs[-1])
            await transaction.rollback()
            assert list(await asyncio.wait_for(delivery, WAIT_S)) == runs[:-1]
    finally:
        await outsider.close()
        await bystander.close()


async def test_senders_in_open_transactions_do_not_wait_for_each_other(database: Database) -> None:
    connections = [await asyncpg.connect(database.dsn, server_settings={"lock_timeout": "2s"}) for _ in range(2)]
    try:
        async with PostgresStore(database.dsn) as store:
            runs = await started_runs(store, 2)
            transactions = [connection.transaction() for connection in connections]
            for transaction in transactions:
                await transaction.start()
            for order, connection in ((runs, connections[0]), (runs[::-1], connections[1])):
                for run_id in order:
                    message = Message(id=str(connections.index(connection)), kind="signal")
                    receipt = await send_message_on(connection, run_id, message)
                    assert receipt is not None
                    assert receipt.verdict == "accepted"
            for transaction in transactions:
                await transaction.commit()
            for run_id in runs:
                inputs = await store.inputs(run_id)
                assert inputs is not None
                assert {message.id for message in inputs.messages} == {"0", "1"}
    finally:
        for connection in connections:
            await connection.close()
