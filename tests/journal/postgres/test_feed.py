"""The feed: commit order, nothing skipped, and a report of what delays it."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore
from ductor.journal.records import FeedEntry, FeedPosition
from tests.journal.postgres.commits import WAIT_S, answered, started_runs, tick
from tests.postgres_fixtures import Database

BEGINNING = FeedPosition()
INSERT = (
    "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)"
    " VALUES ($1, 1, gen_random_uuid(), ductor.eec_now_us(), '[]', '')"
)


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
async def writer(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A connection for transactions that stay open."""
    connection = await asyncpg.connect(database.dsn)
    yield connection
    await connection.close()


async def whole(store: PostgresStore, after: FeedPosition = BEGINNING, page: int = 7) -> list[FeedEntry]:
    entries: list[FeedEntry] = []
    while found := await store.feed(entries[-1].position if entries else after, page):
        entries.extend(found)
    return entries


async def test_pages_follow_each_other_in_commit_order(store: PostgresStore) -> None:
    runs = await started_runs(store, 20)
    await answered(store, *(tick(run_id, 2) for run_id in runs))
    entries = await whole(store)
    assert [entry.transition.version for entry in entries] == [1] * 20 + [2] * 20
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))


async def test_a_transaction_that_commits_late_is_never_skipped(
    store: PostgresStore, writer: asyncpg.Connection
) -> None:
    late, first = str(uuid.uuid4()), (await started_runs(store, 1))[0]
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute(INSERT, late)
    after_it = (await started_runs(store, 1))[0]
    before = await whole(store)
    assert [entry.transition.run_id for entry in before] == [first], "what came after the open one has to wait"
    await transaction.commit()
    rest = await whole(store, before[-1].position)
    assert [entry.transition.run_id for entry in rest] == [late, after_it]


async def test_a_transaction_that_is_undone_is_not_waited_for(store: PostgresStore, writer: asyncpg.Connection) -> None:
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute(INSERT, str(uuid.uuid4()))
    (run_id,) = await started_runs(store, 1)
    assert await whole(store) == []
    await transaction.rollback()
    assert [entry.transition.run_id for entry in await whole(store)] == [run_id]


async def test_a_reader_beside_many_writers_sees_every_row_once(store: PostgresStore, database: Database) -> None:
    """Eight writers hold transactions open across each other while one reader follows."""
    written: list[str] = []
    chance = random.Random(7)
    go = [asyncio.Event() for _ in range(8)]

    async def write(number: int) -> None:
        connection = await asyncpg.connect(database.dsn)
        for _ in range(25):
            run_id = str(uuid.uuid4())
            async with connection.transaction():
                await connection.execute(INSERT, run_id)
                go[number].set()
                await go[chance.randrange(8)].wait()
                await connection.execute("SELECT 1")
            go[number].clear()
            written.append(run_id)
        go[number].set()
        await connection.close()

    entries: list[FeedEntry] = []

    async def follow(writers: "asyncio.Future[list[None]]") -> None:
        while True:
            is_last = writers.done()
            found = await store.feed(entries[-1].position if entries else FeedPosition(), 10)
            entries.extend(found)
            if is_last and not found:
                return

    async with asyncio.timeout(WAIT_S):
        writers = asyncio.gather(*(write(number) for number in range(8)))
        await asyncio.gather(writers, follow(writers))
    assert sorted(entry.transition.run_id for entry in entries) == sorted(written)
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))


async def test_lag_counts_rows_and_their_age(store: PostgresStore, writer: asyncpg.Connection) -> None:
    assert await store.feed_lag(FeedPosition()) == type(await store.feed_lag(FeedPosition()))(rows=0, oldest_age_ms=0)
    await writer.execute(INSERT, str(uuid.uuid4()))
    await writer.execute("UPDATE ductor.eec_workflow_transition SET at_us = at_us - 60000000")
    await writer.execute(INSERT, str(uuid.uuid4()))
    lag = await store.feed_lag(FeedPosition())
    assert lag.rows == 2
    assert 60_000 <= lag.oldest_age_ms < 90_000
    assert lag.blocked_by == ""
    entries = await whole(store)
    assert (await store.feed_lag(entries[0].position)).rows == 1
    assert (await store.feed_lag(entries[-1].position)).rows == 0


async def test_lag_names_the_transaction_that_holds_the_feed_up(
    store: PostgresStore, writer: asyncpg.Connection
) -> None:
    await writer.execute("SET application_name = 'nightly report'")
    pid = await writer.fetchval("SELECT pg_backend_pid()")
    async with writer.transaction():
        await writer.execute(INSERT, str(uuid.uuid4()))
        await started_runs(store, 1)
        lag = await store.feed_lag(FeedPosition())
        assert lag.rows == 1
        assert f"process {pid}," in lag.blocked_by
        assert "application nightly report" in lag.blocked_by
        assert "user postgres" in lag.blocked_by
    assert (await store.feed_lag(FeedPosition())).blocked_by == ""


async def test_lag_names_a_transaction_of_another_database(store: PostgresStore, database: Database) -> None:
    stranger = await asyncpg.connect(database.server.dsn("postgres"))
    try:
        async with stranger.transaction():
            await stranger.execute("SELECT pg_current_xact_id()")
            await started_runs(store, 1)
            assert await whole(store) == []
            assert "database postgres," in (await store.feed_lag(FeedPosition())).blocked_by
    finally:
        await stranger.close()
    assert len(await whole(store)) == 1


async def test_lag_names_a_prepared_transaction(store: PostgresStore, writer: asyncpg.Connection) -> None:
    await writer.execute("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'forgotten'")
    try:
        await started_runs(store, 1)
        assert "prepared transaction forgotten" in (await store.feed_lag(FeedPosition())).blocked_by
    finally:
        await writer.execute("ROLLBACK PREPARED 'forgotten'")


async def test_a_role_without_rights_on_statistics_is_told_the_process_all_the_same(
    database: Database, writer: asyncpg.Connection
) -> None:
    pid = await writer.fetchval("SELECT pg_backend_pid()")
    await writer.execute(
        "CREATE ROLE blind LOGIN; GRANT USAGE ON SCHEMA ductor TO blind;"
        "GRANT ALL ON ALL TABLES IN SCHEMA ductor TO blind"
    )
    try:
        async with PostgresStore(database.dsn.replace("postgres@", "blind@")) as store, writer.transaction():
            await writer.execute(INSERT, str(uuid.uuid4()))
            await started_runs(store, 1)
            assert f"process {pid}, database {database.name}," in (await store.feed_lag(FeedPosition())).blocked_by
    finally:
        await writer.execute("DROP OWNED BY blind; DROP ROLE blind")


async def test_a_database_restored_elsewhere_starts_a_new_era(database: Database, writer: asyncpg.Connection) -> None:
    """Rows of the old cluster may carry higher transaction ids than the new one has given out."""
    async with PostgresStore(database.dsn) as store:
        old = await started_runs(store, 2)
    await writer.execute("UPDATE ductor.eec_workflow_transition SET transaction_id = '9000000000000'::xid8")
    await writer.execute("UPDATE ductor.eec_journal_era SET system_identifier = system_identifier + 1")
    async with PostgresStore(database.dsn) as store, PostgresStore(database.dsn):
        new = await started_runs(store, 2)
        entries = await whole(store)
    assert sorted(entry.transition.run_id for entry in entries[:2]) == old
    assert sorted(entry.transition.run_id for entry in entries[2:]) == new
    assert [entry.position.era for entry in entries] == [0, 0, 1, 1]
    assert await writer.fetchval("SELECT max(era) FROM ductor.eec_journal_era") == 1
