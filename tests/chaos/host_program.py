"""A host process to be killed: `python -m tests.chaos.host_program DSN LEDGER`.

Its handlers write each execution to the ledger, a file opened for appending: one line `run step generation`. That is
the outside world, which remembers what really happened.
"""

import asyncio
import os
import sys
from typing import Any

from ductor.actors.context import TaskContext
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import TaskRegistry, task
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore


def handlers(ledger: int) -> TaskRegistry:
    """The handlers of `DEFINITIONS`, writing to the open file `ledger`."""

    def record(context: TaskContext) -> None:
        os.write(ledger, f"{context.run_id} {context.step} {context.idempotency_key.rpartition('/')[2]}\n".encode())

    @task("add")
    async def add(n: int, context: TaskContext) -> int:
        record(context)
        await asyncio.sleep(0.002)
        return n + 1

    @task("flaky")
    async def flaky(n: int, context: TaskContext) -> int:
        record(context)
        if context.attempt == 1:
            raise ConnectionError("the first attempt always fails")
        return n * 2

    @task("blocking")
    def blocking(n: int, context: TaskContext) -> dict[str, Any]:
        record(context)
        return {"n": n}

    return TaskRegistry([add, flaky, blocking])


async def main(dsn: str, ledger_file: str) -> None:
    """Host until killed."""
    ledger = os.open(ledger_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    async with PostgresStore(dsn) as store:
        host = EngineHost(store, handlers(ledger), clock=SystemClock(), ids=SystemIds(), options=HostOptions())
        await host.start_host()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
