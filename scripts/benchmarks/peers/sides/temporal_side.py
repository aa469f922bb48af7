"""Temporal: its development server on SQLite, and worker and client in the program.

Its production server, on PostgreSQL, comes in no package of PyPI or npm. The server differs from what is shipped in two
ways: SQLite syncs every commit (`synchronous=FULL`), and the limits are lifted that let a lone run go on only about
every 50 ms.
"""

import asyncio
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from scripts.benchmarks.peers.sides.driver import SLEEP_S, Options, Side, asyncio_loop, main
from scripts.benchmarks.peers.sides.processes import free_ports, is_listening, running

QUEUE = "bench"
ACTIVITY_TIMEOUT = timedelta(seconds=60)
POLLS_PER_S = 5_000
CACHED_WORKFLOWS = 6_000


@activity.defn
async def noop(i: int) -> int:
    """Give back what came in."""
    return i


@workflow.defn
class Sequence:
    """No-op activities, one after the other."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """See the class."""
        done = 0
        for number in range(1, steps + 1):
            done = await workflow.execute_activity(noop, number, start_to_close_timeout=ACTIVITY_TIMEOUT)
        return done


@workflow.defn
class FanOut:
    """Many activities at once."""

    @workflow.run
    async def run(self, count: int) -> int:
        """See the class."""
        calls = (workflow.execute_activity(noop, i, start_to_close_timeout=ACTIVITY_TIMEOUT) for i in range(count))
        return len(await asyncio.gather(*calls))


@workflow.defn
class Child:
    """Give back what came in."""

    @workflow.run
    async def run(self, i: int) -> int:
        """See the class."""
        return i


@workflow.defn
class ChildRuns:
    """Many child workflows at once."""

    @workflow.run
    async def run(self, count: int) -> int:
        """See the class."""
        parent = workflow.info().workflow_id
        calls = (workflow.execute_child_workflow(Child.run, i, id=f"{parent}-{i}") for i in range(count))
        return len(await asyncio.gather(*calls))


@workflow.defn
class Waiter:
    """Wait for a signal."""

    def __init__(self) -> None:
        self._value: int | None = None

    @workflow.run
    async def run(self) -> int:
        """See the class."""
        await workflow.wait_condition(lambda: self._value is not None)
        assert self._value is not None
        return self._value

    @workflow.signal
    def go(self, value: int) -> None:
        """Hear the signal."""
        self._value = value


@workflow.defn
class Sleeper:
    """Sleep, and tell how much too long: by the real clock, which its workflows are not meant to read."""

    @workflow.run
    async def run(self) -> float:
        """See the class."""
        due_s: float = workflow.now().timestamp() + SLEEP_S
        await asyncio.sleep(SLEEP_S)
        return time.time() - due_s


class TemporalSide(Side):
    """Workflows that a worker in this process carries out for the server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def processes(self) -> dict[str, list[int]]:
        # one figure, for the server is a child of this process
        return {"program_and_server": [os.getpid()]}

    async def run(self, steps: int) -> None:
        assert await self._result(await self._start("Sequence", steps)) == steps

    async def gather_steps(self, count: int) -> int:
        return int(await self._result(await self._start("FanOut", count)))

    async def gather_runs(self, count: int) -> int:
        return int(await self._result(await self._start("ChildRuns", count)))

    async def park(self, number: int) -> object:
        return await self._start("Waiter")

    async def signal(self, parked: object) -> int:
        assert isinstance(parked, WorkflowHandle)
        await parked.signal("go", 7)
        return int(await self._result(parked))

    async def start_sleeper(self) -> object:
        return await self._start("Sleeper")

    async def lateness_s(self, sleeper: object) -> float:
        return float(await self._result(sleeper))

    async def _start(self, name: str, *arguments: int) -> object:
        client, run_id = self._client, uuid.uuid4().hex
        started: object = await client.start_workflow(name, args=list(arguments), id=run_id, task_queue=QUEUE)
        return started

    async def _result(self, handle: object) -> float:
        assert isinstance(handle, WorkflowHandle)
        result: float = await handle.result()
        return result


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Start the server, connect, and work."""
    (port,) = free_ports(1)
    folder = Path(options.folder)
    command = [
        str(Path(sys.executable).with_name("temporal")), "server", "start-dev", "--headless",
        "--ip", "127.0.0.1", "--port", str(port), "--log-level", "error",
        "--db-filename", str(folder / "temporal.db"),
        "--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=FULL",
    ]  # fmt: skip
    for queue in ("transfer", "timer"):
        for scope in ("", "Host"):
            command += ["--dynamic-config-value", f"history.{queue}ProcessorMaxPoll{scope}RPS={POLLS_PER_S}"]

    async def is_serving() -> bool:
        if not await is_listening(port):
            return False
        try:
            client = await Client.connect(f"127.0.0.1:{port}")
            await client.count_workflows()
        except (RPCError, RuntimeError):
            return False
        return True

    async with running(command, folder / "server.log", is_serving):
        client = await Client.connect(f"127.0.0.1:{port}")
        async with Worker(
            client,
            task_queue=QUEUE,
            activities=[noop],
            workflows=[Sequence, FanOut, ChildRuns, Child, Waiter, Sleeper],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=CACHED_WORKFLOWS,
            max_concurrent_activities=1_000,
            max_concurrent_workflow_tasks=200,
        ):
            yield TemporalSide(client)


if __name__ == "__main__":
    main(open_side, asyncio_loop)
