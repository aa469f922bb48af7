"""A host process to be killed: `python -m tests.chaos.host_program DSN LEDGER MAX_LOSSES`.

Its handlers note in the ledger what they begin and do: that is the outside world, which remembers what really happened.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ductor.actors.context import TaskContext
from ductor.actors.engine_options import EngineOptions
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import TaskRegistry, task
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from scripts.chaos_run.ledger import Ledger


def handlers(ledger: Ledger) -> TaskRegistry:
    """The handlers of `DEFINITIONS`, writing to the ledger."""

    def begin(context: TaskContext) -> None:
        ledger.note("began", context.idempotency_key)

    def effect(context: TaskContext) -> None:
        ledger.note("did", context.idempotency_key)

    @task("add")
    async def add(n: int, context: TaskContext) -> int:
        begin(context)
        await asyncio.sleep(0.002)
        effect(context)
        return n + 1

    @task("flaky")
    async def flaky(n: int, context: TaskContext) -> int:
        begin(context)
        if context.attempt == 1:
            raise ConnectionError("the first attempt always fails")
        effect(context)
        return n * 2

    @task("blocking")
    def blocking(n: int, context: TaskContext) -> dict[str, Any]:
        begin(context)
        effect(context)
        return {"n": n}

    @task("deadly")
    async def deadly(context: TaskContext) -> None:
        begin(context)
        os.kill(os.getpid(), signal.SIGKILL)

    return TaskRegistry([add, flaky, blocking, deadly])


async def main(dsn: str, ledger_file: str, max_losses: str) -> None:
    """Host until killed."""
    ledger = Ledger(Path(ledger_file))
    options = HostOptions(engine=EngineOptions(max_losses=int(max_losses)))
    async with PostgresStore(dsn) as store:
        host = EngineHost(store, handlers(ledger), clock=SystemClock(), ids=SystemIds(), options=options)
        await host.start_host()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
