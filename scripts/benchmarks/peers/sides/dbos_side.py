"""DBOS Transact: a library in the program, checkpoints in PostgreSQL. Workflows are coroutines of its loop."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from dbos import DBOS, DBOSConfig, WorkflowHandleAsync

from scripts.benchmarks.peers.sides.driver import SLEEP_S, Options, Side, asyncio_loop, main

SIGNAL_TIMEOUT_S = 3_600


@DBOS.step()
async def noop(i: int) -> int:
    """Give back what came in."""
    return i


@DBOS.workflow()
async def sequence(steps: int) -> int:
    """No-op steps, one after the other."""
    done = 0
    for number in range(1, steps + 1):
        done = await noop(number)
    return done


@DBOS.workflow()
async def fan_out(count: int) -> list[int]:
    """Many steps at once."""
    return list(await asyncio.gather(*(noop(i) for i in range(count))))


@DBOS.workflow()
async def child(i: int) -> int:
    """Give back what came in."""
    return i


@DBOS.workflow()
async def child_runs(count: int) -> list[int]:
    """Many child workflows at once."""
    handles = [await DBOS.start_workflow_async(child, i) for i in range(count)]
    return [await handle.get_result() for handle in handles]


@DBOS.workflow()
async def waiter() -> int:
    """Wait for a message."""
    received: int = await DBOS.recv_async("go", timeout_seconds=SIGNAL_TIMEOUT_S)
    return received


@DBOS.workflow()
async def sleeper() -> float:
    """Sleep, and tell how much too long."""
    due_s = time.time() + SLEEP_S
    await DBOS.sleep_async(SLEEP_S)
    return time.time() - due_s


class DbosSide(Side):
    """Workflows in this process."""

    def __init__(self, postgres_pid: int) -> None:
        self._postgres_pid = postgres_pid

    def processes(self) -> dict[str, list[int]]:
        return {"program": [os.getpid()], "postgresql": [self._postgres_pid]}

    async def run(self, steps: int) -> None:
        handle = await DBOS.start_workflow_async(sequence, steps)
        assert await handle.get_result() == steps

    async def gather_steps(self, count: int) -> int:
        return len(await (await DBOS.start_workflow_async(fan_out, count)).get_result())

    async def gather_runs(self, count: int) -> int:
        return len(await (await DBOS.start_workflow_async(child_runs, count)).get_result())

    async def park(self, number: int) -> object:
        return await DBOS.start_workflow_async(waiter)

    async def signal(self, parked: object) -> int:
        handle = cast("WorkflowHandleAsync[int]", parked)
        await DBOS.send_async(handle.workflow_id, 7, "go")
        result: int = await handle.get_result()
        return result

    async def start_sleeper(self) -> object:
        return await DBOS.start_workflow_async(sleeper)

    async def lateness_s(self, sleeper: object) -> float:
        late_s: float = await cast("WorkflowHandleAsync[float]", sleeper).get_result()
        return late_s


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Launch DBOS on an empty database."""
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": options.database,
        "log_level": "ERROR",
        "application_version": "1",
        "run_admin_server": False,
    }
    DBOS(config=config)
    DBOS.launch()
    try:
        yield DbosSide(options.postgres_pid)
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main(open_side, asyncio_loop)
