"""Absurd: a task queue in PostgreSQL whose tasks checkpoint their steps. Worker processes of their own poll for tasks.

Its wait for a result polls (50 ms, then longer), so W1 sends all runs at once and waits until the queue is empty.
Variants: `default` polls for work every 250 ms, as the SDK does unless told otherwise; `fast-poll` every 10 ms.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psycopg
from absurd_sdk import AsyncAbsurd, AsyncTaskContext

from scripts.benchmarks.peers.sides.driver import SLEEP_S, Options, Side, asyncio_loop, main
from scripts.benchmarks.peers.sides.processes import running

POLL_S = {"default": 0.25, "fast-poll": 0.01}
WORKER_CONCURRENCY = 16
WORKERS_OF_BUSY_WORKLOADS = 4
DRAIN_POLL_S = 0.02
_UNFINISHED = "SELECT EXISTS (SELECT FROM absurd.t_work WHERE state IN ('pending', 'running', 'sleeping'))"


def work(database: str, poll_s: float) -> None:
    """Be a worker process. Child tasks have a queue and a connection of their own."""
    tasks = AsyncAbsurd(database, queue_name="work")
    children = AsyncAbsurd(database, queue_name="children")

    async def noop() -> int:
        return 1

    @tasks.register_task(name="sequence")
    async def sequence(params: dict[str, int], ctx: AsyncTaskContext) -> int:
        return sum([await ctx.step(f"s{number}", noop) for number in range(params["steps"])])

    @tasks.register_task(name="child_runs")
    async def child_runs(params: dict[str, int], ctx: AsyncTaskContext) -> int:
        async def spawn_all() -> list[str]:
            spawned = [await children.spawn("child", {}, queue="children") for _ in range(params["count"])]
            return [str(one["task_id"]) for one in spawned]

        ids = await ctx.step("spawn", spawn_all)
        return sum([(await ctx.await_task_result(one, queue_name="children")).result for one in ids])

    @children.register_task(name="child")
    async def child(params: object, ctx: AsyncTaskContext) -> int:  # noqa: ARG001 - the shape of its tasks
        return 1

    @tasks.register_task(name="waiter")
    async def waiter(params: dict[str, int], ctx: AsyncTaskContext) -> int:
        event: dict[str, int] = await ctx.await_event(f"go:{params['number']}")
        return event["value"]

    @tasks.register_task(name="sleeper")
    async def sleeper(params: object, ctx: AsyncTaskContext) -> float:  # noqa: ARG001 - the shape of its tasks
        async def now() -> float:
            return time.time()

        started_s: float = await ctx.step("started", now)
        await ctx.sleep_for("sleep", SLEEP_S)
        return time.time() - started_s - SLEEP_S

    async def serve() -> None:
        await asyncio.gather(
            *(one.start_worker(concurrency=WORKER_CONCURRENCY, poll_interval=poll_s) for one in (tasks, children))
        )

    asyncio.run(serve())


class AbsurdSide(Side):
    """Tasks that worker processes carry out."""

    is_backlog = True

    def __init__(self, database: str, tasks: AsyncAbsurd, workers: list[int], postgres_pid: int) -> None:
        self._database = database
        self._tasks = tasks
        self._processes = {"program": workers, "postgresql": [postgres_pid]}

    def processes(self) -> dict[str, list[int]]:
        return self._processes

    async def run(self, steps: int) -> None:
        assert await self._result(await self._spawn("sequence", steps=steps)) == steps

    async def work_off(self, runs: int, steps: int) -> None:
        for _ in range(runs):
            await self._spawn("sequence", steps=steps)
        await self.sleepers_done()

    async def gather_runs(self, count: int) -> int:
        gathered = await self._result(await self._spawn("child_runs", count=count))
        return int(gathered)

    async def park(self, number: int) -> object:
        return number, await self._spawn("waiter", number=number)

    async def signal(self, parked: object) -> int:
        assert isinstance(parked, tuple)
        number, task_id = parked
        await self._tasks.emit_event(f"go:{number}", {"value": 7}, queue_name="work")
        return int(await self._result(task_id))

    async def start_sleeper(self) -> object:
        return await self._spawn("sleeper")

    async def sleepers_done(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._database, autocommit=True) as connection:
            while True:
                row = await (await connection.execute(_UNFINISHED)).fetchone()
                if row is not None and not row[0]:
                    return
                await asyncio.sleep(DRAIN_POLL_S)

    async def lateness_s(self, sleeper: object) -> float:
        return float(await self._result(sleeper))

    async def _spawn(self, name: str, **parameters: int) -> object:
        return (await self._tasks.spawn(name, parameters, queue="work"))["task_id"]

    async def _result(self, task_id: object) -> float:
        snapshot = await self._tasks.await_task_result(task_id)
        assert snapshot.state == "completed", snapshot
        result: float = snapshot.result
        return result


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Make the queues and start the workers."""
    control = Path(sys.executable).with_name("absurdctl")
    for command in (["init"], ["create-queue", "work"], ["create-queue", "children"]):
        arguments = [str(control), command[0], "-d", options.database, *command[1:]]
        await asyncio.to_thread(subprocess.run, arguments, check=True, stdout=subprocess.DEVNULL)
    busy = options.workload in ("W1", "W3c", "W5")
    command = [sys.executable, "-m", __spec__.name, "--worker", options.database, str(POLL_S[options.variant])]

    async def at_once() -> bool:
        return True  # the first run, which is not counted, waits until there is a worker

    async with AsyncExitStack() as stack:
        log = Path(options.folder) / "workers.log"
        workers = [
            await stack.enter_async_context(running(command, log, at_once))
            for _ in range(WORKERS_OF_BUSY_WORKLOADS if busy else 1)
        ]
        tasks = AsyncAbsurd(options.database, queue_name="work")
        try:
            yield AbsurdSide(options.database, tasks, workers, options.postgres_pid)
        finally:
            await tasks.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], float(sys.argv[3]))
    else:
        main(open_side, asyncio_loop)
