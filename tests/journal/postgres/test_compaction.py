"""Removal of compacted rows on PostgreSQL: projectors are waited for, writers are not held up, indexes are used."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from ductor.journal.codec import encode_events
from ductor.journal.commit import Appended, Payload
from ductor.journal.compaction import compacted
from ductor.journal.events import NodeSettled, PayloadRef
from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres.compaction import Compaction
from ductor.journal.replay import state_at
from tests.journal.postgres.commits import answered, started_runs, tick
from tests.postgres_fixtures import Database

EVER = 2**62


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.dsn)
    yield connection
    await connection.close()


def settles(hash: str) -> bytes:
    return encode_events([NodeSettled(node="a", status="succeeded", output_ref=PayloadRef(hash, 1))])


async def compacted_run(store: PostgresStore, **of_second_row: Any) -> str:
    """A run with three rows and one that stands for them."""
    (run_id,) = await started_runs(store, 1)
    await answered(store, tick(run_id, 2, **of_second_row))
    await answered(store, tick(run_id, 3, events=encode_events([NodeSettled(node="a", status="failed", output=1)])))
    state = state_at(run_id, await store.history(run_id))
    await answered(store, tick(run_id, 4, events=encode_events([compacted(state)])))
    return run_id


async def test_rows_wait_for_the_slowest_projector(store: PostgresStore, connection: asyncpg.Connection) -> None:
    run_id = await compacted_run(store)
    second = await connection.fetchrow(
        "SELECT era, transaction_id::text::bigint, position FROM ductor.eec_workflow_transition"
        " WHERE run_id = $1 AND version = 2",
        run_id,
    )
    assert second is not None
    insert = (
        "INSERT INTO ductor.eec_projection (name, generation, revision, stage, era, transaction_id, position)"
        " VALUES ($1, 1, 1, $2, $3, $4, $5)"
    )
    await connection.execute(insert, "fast", "serving", second[0], second[1] + 1_000_000, 2**40)
    await connection.execute(insert, "slow", "building", *second)
    await connection.execute(insert, "gone", "retired", 0, 0, 0)
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 2
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 0
    left = "SELECT count(*) FROM ductor.eec_workflow_transition WHERE run_id = $1"
    assert await connection.fetchval(left, run_id) == 2

    await connection.execute("UPDATE ductor.eec_projection SET stage = 'retired' WHERE name = 'slow'")
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 1
    assert await connection.fetchval(left, run_id) == 1


async def test_large_values_are_not_removed_while_somebody_writes_one(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    run_id = await compacted_run(store, events=settles("h"), payloads=(Payload("h", b"1"),))
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("INSERT INTO ductor.eec_payload (run_id, hash, body) VALUES ($1, 'new', '2')", run_id)
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 0
    assert await store.payload(run_id, "h") == b"1"
    await transaction.rollback()
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 1
    assert await store.payload(run_id, "h") is None
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 3


async def test_a_value_that_is_named_again_between_look_and_removal_stays(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await compacted_run(store, events=settles("h"), payloads=(Payload("h", b"1"),))
    looked = Compaction._unneeded_values

    async def then_named_again(self: Compaction, run_id: str, version: int) -> list[asyncpg.Record]:
        found = await looked(self, run_id, version)
        assert [row["hash"] for row in found] == ["h"]
        again = tick(run_id, 5, events=settles("h"), payloads=(Payload("h", b"1"),))
        assert await answered(store, again) == [Appended(5)]
        return found

    monkeypatch.setattr(Compaction, "_unneeded_values", then_named_again)
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 0
    assert await store.payload(run_id, "h") == b"1"
    monkeypatch.undo()
    assert await store.remove_compacted_rows(run_id, before_us=EVER) == 3
    assert await store.payload(run_id, "h") == b"1"


async def test_several_hosts_may_remove_the_same_at_once(store: PostgresStore, database: Database) -> None:
    run_id = await compacted_run(store, events=settles("h"), payloads=(Payload("h", b"1"),))
    async with PostgresStore(database.dsn) as other:

        async def remove(one: PostgresStore) -> None:
            for _ in range(5):
                await one.remove_compacted_rows(run_id, before_us=EVER, limit=2)

        await asyncio.gather(remove(store), remove(other))
    assert [row.version for row in await store.history(run_id)] == [4]


async def test_compacted_rows_are_found_by_their_index(store: PostgresStore, connection: asyncpg.Connection) -> None:
    await compacted_run(store)
    plan = await connection.fetch(
        "EXPLAIN SELECT max(version) FROM ductor.eec_workflow_transition WHERE run_id = gen_random_uuid()"
        """ AND starts_with(events::text, '[{"type":"run_compacted"')"""
    )
    assert "eec_workflow_transition_compacted" in "\n".join(row[0] for row in plan)
