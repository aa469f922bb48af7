"""Builders for tests of the worker pool: assignments, and a pool whose results a test can await."""

import asyncio
from collections.abc import Callable
from typing import Any

from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.tasks import Task, TaskRegistry
from ductor.actors.worker import WorkerPool
from ductor.definitions.policies import Timeouts
from ductor.journal.clock import Clock, SystemClock
from ductor.journal.events import AttemptFinished
from ductor.testing.loop import VirtualTimeLoop


def loop_clock() -> Clock:
    """The clock of the running loop: virtual where the loop is."""
    loop = asyncio.get_running_loop()
    return loop.clock if isinstance(loop, VirtualTimeLoop) else SystemClock()


def assignment(task: str, value: Any = None, *, number: int = 1, **fields: Any) -> Assignment:
    """An assignment of `task`, dispatched now unless told otherwise. `number` makes its token."""
    if "dispatched_at_us" not in fields:
        fields["dispatched_at_us"] = loop_clock().now_us()
    timeouts = Timeouts(**{name: fields.pop(name) for name in Timeouts.__struct_fields__ if name in fields})
    return Assignment(
        **{
            "token": f"run/{task}/{number}",
            "run_id": "run",
            "tenant": "acme",
            "definition": "order",
            "node": task,
            "generation": number,
            "attempt": 1,
            "iteration": 0,
            "task": task,
            "input": {} if value is None else value,
            "queue": "default",
            "priority": 0,
            "timeouts": timeouts,
            **fields,
        }
    )


class Desk:
    """A pool, and everything it delivered."""

    def __init__(
        self, *handlers: Callable[..., Any], on_deliver: Callable[[AttemptResult], None] | None = None, **options: Any
    ):
        """Args: `handlers` become tasks of their own names; `options` go to the pool."""
        self.registry = TaskRegistry(Task(handler.__name__, handler) for handler in handlers)
        self.delivered: list[AttemptResult] = []
        self._on_deliver = on_deliver
        self._arrived = asyncio.Event()
        self.pool = WorkerPool(self.registry, deliver=self._deliver, clock=loop_clock(), name="worker-1", **options)

    def _deliver(self, result: AttemptResult) -> None:
        self.delivered.append(result)
        self._arrived.set()
        if self._on_deliver is not None:
            self._on_deliver(result)

    async def results(self, count: int) -> list[AttemptFinished]:
        """What was delivered, once it is `count` results."""
        while len(self.delivered) < count:
            self._arrived.clear()
            await self._arrived.wait()
        return [result.finished for result in self.delivered]

    async def run(self, wanted: Assignment) -> AttemptFinished:
        """Offer an attempt and wait for its result, which is confirmed."""
        before = len(self.delivered)
        assert self.pool.offer(wanted)
        await self.results(before + 1)
        result = self.delivered[before]
        assert result.token == wanted.token
        self.pool.confirm(result.token)
        return result.finished


async def settled() -> None:
    """Let everything run that can."""
    for _ in range(10):
        await asyncio.sleep(0)
