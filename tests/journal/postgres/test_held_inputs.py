"""What waits for paused runs is looked at once, and not by every search for runs to wake."""

import asyncpg
import pytest

from ductor.journal.commit import HeadUpdate
from ductor.journal.events import Message
from ductor.journal.postgres import PostgresStore, wakeups
from ductor.journal.records import AttemptRow
from tests.contracts.writers import RunWriter, send_well, started
from tests.postgres_fixtures import Database

LATER_US = 2_000_000_000_000_000
HELD = "SELECT count(*) FROM ductor.eec_workflow_{} WHERE is_held"


async def paused_with_inputs(store: PostgresStore) -> RunWriter:
    run = await started(store)
    await send_well(store, run.commit(head=HeadUpdate(status="paused")))
    await store.append_attempt(AttemptRow(run_id=run.run_id, node="a", generation=1, outcome="succeeded"))
    await store.send_message(run.run_id, Message(id="m-1", kind="signal", name="paid"))
    return run


async def counts(database: Database) -> tuple[int, int]:
    connection = await asyncpg.connect(database.dsn)
    try:
        attempts, messages = [await connection.fetchval(HELD.format(table)) for table in ("step_attempt", "signal")]
        return attempts, messages
    finally:
        await connection.close()


async def test_a_search_marks_what_it_passes_over(database: Database):
    async with PostgresStore(database.dsn) as store:
        await paused_with_inputs(store)
        assert await counts(database) == (0, 0)
        assert await store.runs_to_wake(LATER_US, 10) == []
        assert await counts(database) == (1, 1)


async def test_what_is_held_leaves_room_for_others_however_much_it_is(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """A search looks at two rows: those of paused runs come first."""
    monkeypatch.setattr(wakeups, "WAKE_SCAN_ROWS", 2)
    async with PostgresStore(database.dsn) as store:
        for _ in range(4):
            await paused_with_inputs(store)
        other = await started(store)
        await store.send_message(other.run_id, Message(id="m-1", kind="signal", name="paid"))
        found = [await store.runs_to_wake(LATER_US, 10) for _ in range(3)]
        assert found == [[], [], [other.run_id]]
        assert await counts(database) == (4, 4)


async def test_what_a_transaction_has_locked_is_not_waited_for(database: Database):
    async with PostgresStore(database.dsn) as store:
        await paused_with_inputs(store)
        connection = await asyncpg.connect(database.dsn)
        try:
            async with connection.transaction():
                await connection.fetch("SELECT FROM ductor.eec_workflow_signal FOR UPDATE")
                assert await store.runs_to_wake(LATER_US, 10) == []
                assert await counts(database) == (1, 0)
        finally:
            await connection.close()
        assert await store.runs_to_wake(LATER_US, 10) == []
        assert await counts(database) == (1, 1)


async def test_recovering_releases_what_is_held_of_runs_that_go_on(database: Database):
    async with PostgresStore(database.dsn) as store:
        run, still_paused = await paused_with_inputs(store), await paused_with_inputs(store)
        assert await store.runs_to_wake(LATER_US, 10) == []
        await send_well(store, run.commit(head=HeadUpdate(status="waiting")))
        assert await store.runs_to_wake(LATER_US, 10) == []
        await store.runs_to_recover(still_paused.run_id, 10)  # a later page
        assert await counts(database) == (2, 2)
        await store.runs_to_recover(None, 10)
        assert await counts(database) == (1, 1)
        assert await store.runs_to_wake(LATER_US, 10) == [run.run_id]
