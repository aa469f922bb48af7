"""Remote attempts over real Redis and PostgreSQL: what Redis loses or can't serve gets to workers within the bound."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from ductor.actors.host import EngineHost
from ductor.actors.queue.opening import make_queue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queue.tiered import STUCK_BOUND_MS
from ductor.actors.remote_worker import RemoteWorker
from ductor.actors.tasks import TaskRegistry, task
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.actors.hosting import ONE, definition
from tests.postgres_fixtures import Database
from tests.redis_server import RedisServer, redis_server_of_its_own

RUNS = 20
SETTLE_MS = 3_000
"""For what comes after the queue: the handler, its row, and the sweep that finds it."""


@task("work")
async def work() -> str:
    return "done"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server_of_its_own() as server:
        yield server


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
async def host(store: PostgresStore, redis: RedisServer) -> AsyncIterator[EngineHost]:
    """A host without handlers."""
    host = EngineHost(store, TaskRegistry(), clock=SystemClock(), ids=SystemIds(), redis=RedisSettings(url=redis.url))
    for compiled in compile_text(definition(ONE)):
        await host.publish(compiled)
    async with host:
        yield host


async def wait_until_queued(host: EngineHost, count: int) -> None:
    """Until so many attempts are in the queue."""
    assert host.queue is not None
    async with asyncio.timeout(20):
        while (await host.queue.depth("default")).queued < count:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0)


@pytest.mark.parametrize("fault", ["flushed", "killed", "killed for good", "frozen"])
async def test_what_redis_loses_gets_to_a_worker_within_the_bound(
    host: EngineHost, store: PostgresStore, redis: RedisServer, fault: str
):
    runs = [(await host.start("subject")).run_id for _ in range(RUNS)]
    await wait_until_queued(host, RUNS)
    queue = make_queue(store, RedisSettings(url=redis.url), lambda _disturbance: None)
    assert queue is not None
    await queue.open()
    if fault == "flushed":
        with redis.client() as client:
            client.flushall()
    elif fault == "frozen":
        redis.freeze()
    else:
        redis.kill()
        if fault == "killed":
            redis.start()
    began_s = time.monotonic()
    worker = RemoteWorker(store, queue, TaskRegistry([work]), queues=("default",), clock=SystemClock())
    await worker.start()
    for run_id in runs:
        assert (await host.outcome(run_id, timeout_ms=30_000)).output == {"a": "done"}
    assert (time.monotonic() - began_s) * 1e3 < STUCK_BOUND_MS + SETTLE_MS
    if fault == "frozen":
        redis.thaw()
    await worker.stop()
    await queue.close()


async def test_the_host_goes_on_when_redis_was_never_there(store: PostgresStore, redis: RedisServer):
    redis.kill()
    settings = RedisSettings(url=redis.url)
    async with EngineHost(store, TaskRegistry([work]), clock=SystemClock(), ids=SystemIds(), redis=settings) as host:
        for compiled in compile_text(definition(ONE)):
            await host.publish(compiled)
        assert (await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)).status == "completed"
        health = await host.health()
        assert health.queue is not None
        assert health.queue.is_available
        assert health.queue.reason
