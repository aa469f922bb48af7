"""What hosts count, as Prometheus reads it: real runs, real scrapes."""

import asyncio

import pytest

import ductor
from ductor.definitions.build import task, wait, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.commit import Appended, CommitAnswer
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.state import RunState
from ductor.observability.endpoint import Endpoint
from ductor.observability.labels import MAX_DEFINITIONS, OTHER
from ductor.observability.metrics import Metrics
from tests.contracts.writers import RunWriter
from tests.ductor.observability.http import parsed, scraped, value


@pytest.fixture
async def store():
    made = MemoryStore(SystemClock())
    await made.open()
    yield made
    await made.close()


@ductor.task("fetch")
async def fetch(context: ductor.TaskContext) -> str:
    if context.attempt == 1:
        raise ConnectionError("away")
    return "fetched"


@ductor.task("fail")
async def fail() -> None:
    raise ductor.NonRetryable("no")


FETCHING = workflow(
    "fetching",
    task("get", "fetch", retry={"max_attempts": 2, "initial": "10ms"}, next="pause"),
    wait("pause", duration="20ms"),
)
FAILING = workflow("failing", task("a", "fail"))


async def test_runs_steps_attempts_and_retries_are_counted_once(store):
    metrics = Metrics()
    host = ductor.Host(tasks=[fetch, fail], definitions=[FETCHING, FAILING], database=store, observers=[metrics])
    async with Endpoint(host, metrics=metrics) as endpoint, host:
        for _ in range(3):
            await (await host.start("fetching")).result(timeout=30)
        with pytest.raises(ductor.RunFailedError):
            await (await host.start("failing")).result(timeout=30)
        found = await scraped(endpoint)
    assert value(found, "runs_started_total", definition="fetching") == 3
    assert value(found, "runs_ended_total", definition="fetching", status="completed") == 3
    assert value(found, "runs_ended_total", definition="failing", status="failed") == 1
    assert value(found, "steps_settled_total", definition="fetching", status="succeeded") == 6
    assert value(found, "attempts_dispatched_total", task="fetch") == 6
    assert value(found, "retries_total", task="fetch") == 3
    assert value(found, "attempts_finished_total", definition="fetching", outcome="failed") == 3
    assert value(found, "attempts_finished_total", definition="fetching", outcome="succeeded") == 3
    assert value(found, "run_duration_seconds_count", definition="fetching") == 3
    lateness_s, fired = value(found, "timer_lateness_seconds_sum"), value(found, "timer_lateness_seconds_count")
    assert fired == 6  # a retry and a wait, three times
    assert lateness_s is not None
    assert 0 <= lateness_s < 5
    ticks, commits = value(found, "tick_duration_seconds_count"), value(found, "commit_latency_seconds_count")
    assert ticks is not None
    assert commits is not None
    assert ticks >= commits >= 3 * 5


async def test_a_host_without_observers_counts_nothing(store):
    metrics = Metrics()
    async with ductor.Host(tasks=[fetch], definitions=FETCHING, database=store) as host:
        assert host.engine.engine.observer is None
        await (await host.start("fetching")).result(timeout=30)
    assert value(parsed(metrics.exposition()), "tick_duration_seconds_count") == 0


async def test_a_run_that_a_client_wrote_is_counted_by_the_host_that_finds_it(database):
    metrics = Metrics()
    async with ductor.Client(database.dsn) as client:
        await client.publish(FETCHING)
        run = await client.start("fetching")
        host = ductor.Host(tasks=[fetch], database=database.dsn, observers=[metrics])
        async with Endpoint(host, metrics=metrics) as endpoint, host:
            await host.run(run.run_id).result(timeout=30)
            found = await scraped(endpoint)
    assert value(found, "runs_started_total", definition="fetching") == 1
    assert value(found, "runs_ended_total", definition="fetching", status="completed") == 1


async def test_postgres_tells_of_batches_queues_and_read_models(database):
    metrics = Metrics()
    host = ductor.Host(tasks=[fetch], definitions=FETCHING, database=database.dsn, observers=[metrics])
    async with Endpoint(host, metrics=metrics) as endpoint, host:
        runs = [await host.start("fetching") for _ in range(20)]
        await asyncio.gather(*(run.result(timeout=30) for run in runs))
        found = await scraped(endpoint)
    batches, written = value(found, "commit_batch_size_count"), value(found, "commit_batch_size_sum")
    commits = value(found, "commit_latency_seconds_count")
    assert batches
    assert commits
    assert written == commits
    assert value(found, "commit_batch_seconds_count") == batches
    assert value(found, "up") == value(found, "store_up") == value(found, "queue_up") == 1
    assert value(found, "queue_dead", queue="default", tier="postgres") == 0
    assert value(found, "projection_failed", projection="runs", generation="1") == 0
    assert value(found, "projection_lag_rows", projection="runs", generation="1") is not None


async def test_work_for_other_processes_shows_by_queue_and_tenant(database):
    metrics = Metrics()
    rendering = workflow("rendering", task("a", "render", queue="gpu"))
    host = ductor.Host(definitions=rendering, database=database.dsn, tenant="acme", observers=[metrics])
    async with Endpoint(host, metrics=metrics) as endpoint, host:
        await host.start("rendering")
        labels = {"queue": "gpu", "tier": "postgres", "tenant": "acme"}
        async with asyncio.timeout(30):
            found = await scraped(endpoint)
            while not value(found, "queue_depth", **labels):
                found = await scraped(endpoint)
    assert value(found, "queue_depth", **labels) == 1
    assert value(found, "queue_in_flight", **labels) == 0
    age_s = value(found, "queue_oldest_seconds", **labels)
    assert age_s is not None
    assert 0 <= age_s < 60


async def test_a_lost_version_check_counts_as_a_conflict_and_nothing_else_twice(database):
    metrics = Metrics()
    waiting = workflow("waiting", wait("for_go", signal="go"))
    async with (
        PostgresStore(database.dsn) as stranger,
        ductor.Host(definitions=waiting, database=database.dsn, observers=[metrics]) as host,
    ):
        run = await host.start("waiting")
        engine = host.engine.engine
        actor = engine.directory.get(run.run_id)
        assert actor is not None
        assert actor.state is not None
        writer = RunWriter(run.run_id)
        writer.version, writer.last_hash = actor.state.version, actor.state.last_hash
        answered: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()
        stranger.commit(writer.commit(at_us=actor.state.at_us), answered.set_result)
        assert isinstance(await answered, Appended)
        await run.signal("go")
        await run.result(timeout=30)
    found = parsed(metrics.exposition())
    assert value(found, "conflicts_total") == 1
    assert value(found, "runs_ended_total", definition="waiting", status="completed") == 1


def test_definitions_beyond_the_bound_are_one_label():
    metrics = Metrics()
    for number in range(MAX_DEFINITIONS + 50):
        state = RunState(run_id="r", definition=f"definition {number}", status="running")
        metrics.committed(state, (), has_begun=True)
    samples = parsed(metrics.exposition())
    found = {labels: count for (name, labels), count in samples.items() if name == "ductor_runs_started_total"}
    assert len(found) == MAX_DEFINITIONS + 1
    assert found[frozenset({("definition", OTHER)})] == 50
