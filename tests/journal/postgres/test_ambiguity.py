"""Answers that get lost: what was written is found out, never guessed."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.commit import Appended, Conflict, StartKeyTaken
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.postgres import ConnectionSettings, PostgresStore, WriterLimits, migrate
from tests.journal.postgres.commits import WAIT_S, answered, send, start, started_runs, tick
from tests.journal.postgres.proxies import CuttingProxy
from tests.journal.waiting import until
from tests.postgres_fixtures import Database, make_directory

LIMITS = WriterLimits(queue_commits=5, backoff_first_s=0.01, backoff_max_s=0.05, close_timeout_s=10.0)


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy(database.dsn) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: CuttingProxy) -> AsyncIterator[PostgresStore]:
    """A store that reaches its server through the proxy."""
    async with PostgresStore(proxy.dsn, LIMITS) as store:
        yield store


async def versions(database: Database, run_id: str) -> list[int]:
    connection = await asyncpg.connect(database.dsn)
    try:
        rows = await connection.fetch(
            "SELECT version FROM ductor.eec_workflow_transition WHERE run_id = $1 ORDER BY version", run_id
        )
        return [row[0] for row in rows]
    finally:
        await connection.close()


async def test_an_answer_lost_after_the_commit_is_still_appended(
    store: PostgresStore, proxy: CuttingProxy, database: Database
) -> None:
    first = start(key="k")
    assert await answered(store, start(key="other")) == [Appended(1)], "the statement is prepared"
    proxy.is_mute = True
    answer = send(store, first)
    await proxy.until_swallowed()
    assert await versions(database, first.run_id) == [1], "the server has committed"
    proxy.is_mute = False
    proxy.cut()
    async with asyncio.timeout(WAIT_S):
        assert await answer == Appended(1)
    assert await versions(database, first.run_id) == [1]
    assert await answered(store, start(key="k")) == [StartKeyTaken(first.run_id)]


async def test_a_lost_answer_to_a_losing_commit_is_a_conflict(store: PostgresStore, proxy: CuttingProxy) -> None:
    (run_id,) = await started_runs(store, 1)
    assert await answered(store, tick(run_id, 2)) == [Appended(2)]
    proxy.is_mute = True
    answer = send(store, tick(run_id, 2))
    await proxy.until_swallowed()
    proxy.is_mute = False
    proxy.cut()
    async with asyncio.timeout(WAIT_S):
        assert await answer == Conflict(run_id, 2)


async def test_a_commit_that_its_first_sending_writes_late_is_appended_once(
    store: PostgresStore, proxy: CuttingProxy, database: Database
) -> None:
    """The first sending still waits on the server when the second one looks: the row is absent, and yet may come."""
    patient = WriterLimits(lock_timeout_ms=int(WAIT_S * 1_000), backoff_first_s=0.01)
    (run_id,) = await started_runs(store, 1)
    outsider = await asyncpg.connect(database.dsn)
    transaction = outsider.transaction()
    await transaction.start()
    await outsider.execute(
        "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)"
        " VALUES ($1, 2, gen_random_uuid(), 0, '[]', '')",
        run_id,
    )
    async with PostgresStore(proxy.dsn, patient) as waiting_store:
        answer = send(waiting_store, tick(run_id, 2))
        await until_waiting(outsider, 1)
        proxy.cut()
        await until_waiting(outsider, 2)
        await transaction.rollback()
        async with asyncio.timeout(WAIT_S):
            assert await answer == Appended(2)
    await outsider.close()
    assert await versions(database, run_id) == [1, 2]


async def until_waiting(connection: asyncpg.Connection, count: int) -> None:
    """Wait until so many sessions wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"

    async def are_waiting() -> bool:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        return bool(await connection.fetchval(query) >= count)

    await until(are_waiting)


async def test_commits_wait_while_the_database_is_away_and_starts_are_bounded(
    store: PostgresStore, proxy: CuttingProxy
) -> None:
    runs = await started_runs(store, 4)
    proxy.is_refusing = True
    proxy.cut()
    ticks = [send(store, tick(run_id, 2)) for run_id in runs]
    first = send(store, start())
    with pytest.raises(OverloadedError) as refused:
        store.commit(start(), lambda answer: None)
    assert (refused.value.queued, refused.value.limit) == (5, 5)
    store.commit(tick(runs[0], 3), lambda answer: None)
    await until(lambda: is_unavailable(store))
    health = await store.health()
    assert health.reason
    assert health.queued_commits == 6
    assert not any(answer.done() for answer in ticks)
    with pytest.raises(StoreUnavailableError):
        await store.head(runs[0])
    proxy.is_refusing = False
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.gather(*ticks, first) == [Appended(2)] * 4 + [Appended(1)]
        assert await answered(store, tick(runs[0], 4)) == [Appended(4)]
    assert (await store.health()).is_available
    assert await store.head(runs[0]) is not None


async def is_unavailable(store: PostgresStore) -> bool:
    return not (await store.health()).is_available


async def test_a_server_that_does_not_answer_in_time_is_asked_again(
    proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection breaks: the answers simply never come, as behind a firewall that forgot about it."""
    monkeypatch.setattr("ductor.journal.postgres.writer.WATCH_INTERVAL_S", 0.01)
    async with PostgresStore(ConnectionSettings(dsn=proxy.dsn, command_timeout_s=1.0), LIMITS) as store:
        (run_id,) = await started_runs(store, 1)
        proxy.is_mute = True
        answer = send(store, tick(run_id, 2))
        await proxy.until_swallowed()
        assert not answer.done()
        proxy.is_mute = False
        async with asyncio.timeout(WAIT_S):
            assert await answer == Appended(2)


async def test_close_answers_what_is_queued(proxy: CuttingProxy) -> None:
    store = PostgresStore(proxy.dsn, LIMITS)
    await store.open()
    answer = send(store, start())
    await store.close()
    assert answer.result() == Appended(1)
    with pytest.raises(StoreUnavailableError):
        store.commit(start(), lambda answer: None)


async def test_close_without_the_database_says_what_is_lost(proxy: CuttingProxy) -> None:
    store = PostgresStore(proxy.dsn, WriterLimits(backoff_first_s=0.01, close_timeout_s=0.2))
    await store.open()
    proxy.is_refusing = True
    proxy.cut()
    answer = send(store, start())
    with pytest.raises(StoreUnavailableError, match="1 commits not known to be written"):
        await store.close()
    assert not answer.done()


async def test_opening_without_the_database_is_refused(proxy: CuttingProxy) -> None:
    proxy.is_refusing = True
    with pytest.raises(StoreUnavailableError):
        await PostgresStore(ConnectionSettings(dsn=proxy.dsn)).open()


async def test_reads_survive_a_cut_connection(store: PostgresStore, proxy: CuttingProxy) -> None:
    (run_id,) = await started_runs(store, 1)
    proxy.cut()
    assert await store.head(run_id) is not None
    proxy.cut()
    loaded = await store.load(run_id)
    assert loaded is not None
    assert len(loaded.tail) == 1


async def test_a_server_killed_in_mid_commit_loses_nothing_and_doubles_nothing() -> None:
    """Durable server, 32 runs committing all the time, kill -9 of the postmaster, started again."""
    directory = make_directory()
    try:
        async with EmbeddedPostgres(directory / "server", stop_on_parent_death=True) as server:
            await migrate(server.dsn())
            async with PostgresStore(server.dsn(), WriterLimits(backoff_first_s=0.01, backoff_max_s=0.1)) as store:
                runs = await started_runs(store, 32)
                killed = asyncio.Event()
                workers = [asyncio.create_task(commit_until(store, run_id, killed)) for run_id in runs]
                for _ in range(2):
                    pid = server.pid
                    await answered(store, start())
                    os.kill(pid, signal.SIGKILL)
                    await until(lambda pid=pid: server.pid != pid)
                    await answered(store, start())
                killed.set()
                acknowledged = dict(zip(runs, await asyncio.gather(*workers), strict=True))
                for run_id, last in acknowledged.items():
                    history = await store.history(run_id)
                    assert [row.version for row in history] == list(range(1, last + 1))
    finally:
        shutil.rmtree(directory)


async def commit_until(store: PostgresStore, run_id: str, stopped: asyncio.Event) -> int:
    """Commit version after version; each must be appended, whatever happens to the server."""
    version = 1
    while not stopped.is_set() and version < 900:
        version += 1
        assert await answered(store, tick(run_id, version)) == [Appended(version)]
    return version
