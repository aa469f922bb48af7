"""Steps in worker processes: what one costs in time, and how many a second, beside steps in the host itself.

The host and whoever starts runs are in the measuring process; each worker is `ductor worker` in a process of its own.
"""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from ductor.actors.host import EngineHost
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.tasks import TaskRegistry
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.chain import compiled_chain
from scripts.benchmarks.engine_runs import EngineRuns, noop
from scripts.benchmarks.load import closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer
from tests.redis_server import RedisServer

STEPS = 10
IN_FLIGHT = 64
LATENCY_RUNS = 40
THROUGHPUT_RUNS = 1_000
CONCURRENCY = 256
COMMAND = (sys.executable, "-c", "from ductor.cli.main import main; main()", "worker")
HANDLERS = "scripts.benchmarks.engine_runs"


async def measure_remote_work(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Measure runs of ten steps: in the host, and with one and two workers, with and without Redis."""
    table = Table(
        name="workers",
        title=f"Remote steps: runs of {STEPS} steps, in the host and in worker processes",
        columns=("where", "queue", "step_p50_ms", "step_p99_ms", "steps_per_s"),
        note=f"latency: one run at a time; throughput: {IN_FLIGHT} at a time",
    )
    share = 4 if is_quick else 1
    with redis_of_its_own() as redis:
        for workers, url in ((0, None), (1, redis.url), (2, redis.url), (1, None), (2, None)):
            dsn = await server.fresh_database(f"workers_{workers}_{'redis' if url else 'postgres'}")
            async with _runs(dsn, url, workers) as runs:

                async def one(runs: EngineRuns = runs) -> None:
                    await runs.run(STEPS)

                await closed_loop(2, 1, one)  # the first pay for plans
                alone = await closed_loop(LATENCY_RUNS // share, 1, one)
                together = await closed_loop(THROUGHPUT_RUNS // share, IN_FLIGHT, one)
            table.add(
                f"{workers} worker{'s' if workers > 1 else ''}" if workers else "host",
                "" if not workers else "Redis" if url else "PostgreSQL",
                round(percentile(alone.latencies_ms, 0.5) / STEPS, 2),
                round(percentile(alone.latencies_ms, 0.99) / STEPS, 2),
                round(together.runs * STEPS / together.seconds),
            )
    return table


@contextmanager
def redis_of_its_own() -> Iterator[RedisServer]:
    """A Redis of its own that keeps nothing on disk."""
    directory = Path(tempfile.mkdtemp(prefix="ductor-bench-redis-"))
    server = RedisServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


@asynccontextmanager
async def _runs(dsn: str, redis_url: str | None, workers: int) -> AsyncIterator[EngineRuns]:
    """A host, with the handler if there are no workers, and the workers."""
    await migrate(dsn)
    shard = dsn.rpartition("/")[2].partition("?")[0]
    redis = RedisSettings(url=redis_url, shard=shard) if redis_url else None
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(PostgresStore(dsn))
        registry = TaskRegistry([] if workers else [noop])
        host = EngineHost(store, registry, clock=SystemClock(), ids=SystemIds(), redis=redis)
        await host.publish(compiled_chain(STEPS))
        await stack.enter_async_context(host)
        for _ in range(workers):
            await stack.enter_async_context(_worker(dsn, redis))
        yield EngineRuns(host)


@asynccontextmanager
async def _worker(dsn: str, redis: RedisSettings | None) -> AsyncIterator[None]:
    arguments = ["--tasks", HANDLERS, "--concurrency", str(CONCURRENCY), "--database", dsn, "--health", "60s"]
    if redis is not None:
        arguments += ["--redis", redis.url, "--redis-shard", redis.shard]
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    await process.stdout.readline()  # its first report: it is up
    try:
        yield
    finally:
        process.terminate()
        await process.wait()
