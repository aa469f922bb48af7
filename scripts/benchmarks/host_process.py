"""A host in a process of its own, for being measured: `python -m scripts.benchmarks.host_process DSN REDIS SHARD`.

It says `ready` with its host id. Each line that it reads is a number of runs; it makes them, IN_FLIGHT at a time, and
answers with the seconds that they took.
"""

import asyncio
import sys

from ductor.actors.host import EngineHost
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.tasks import TaskRegistry, task
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from ductor.process import fastest_loop, tune_garbage_collector
from scripts.benchmarks.engine_runs import EngineRuns, noop
from scripts.benchmarks.load import closed_loop

STEPS = 10
IN_FLIGHT = 64
PAUSE_S = 0.05


@task("pause")
async def pause() -> None:
    """A handler that is at work most of the time."""
    await asyncio.sleep(PAUSE_S)


async def main(dsn: str, redis_url: str, shard: str) -> None:
    """Serve until there is nothing to read any more."""
    redis = RedisSettings(url=redis_url, shard=shard) if redis_url else None
    async with PostgresStore(dsn) as store:
        registry = TaskRegistry([noop, pause])
        async with EngineHost(store, registry, clock=SystemClock(), ids=SystemIds(), redis=redis) as host:
            tune_garbage_collector()
            print("ready", host.host_id, flush=True)
            runs = EngineRuns(host)
            while line := await asyncio.to_thread(sys.stdin.readline):
                load = await closed_loop(int(line), IN_FLIGHT, lambda: runs.run(STEPS))
                print(load.seconds, flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(main(*sys.argv[1:]))
