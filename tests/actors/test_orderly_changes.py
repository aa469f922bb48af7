"""Hosts come and leave in order, at any moment and in any number: no attempt is carried out twice, and none is lost."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import task
from ductor.testing import virtual_time
from tests.actors.hosting import Hosts

CHAIN = """
context: {steps: 0}
defaults: {task: {retry: {max_attempts: 3, initial: 20ms}}}
steps:
  - {ref: one, type: task, task: work, next: [two, three, hear]}
  - {ref: two, type: task, task: flaky, next: join}
  - {ref: three, type: task, task: work, next: join}
  - {ref: hear, type: wait, signal: word, next: join}
  - {ref: join, type: transform, value: "1", next: four}
  - {ref: four, type: task, task: work}
"""
CHILDREN = """
steps:
  - ref: all
    type: scatter
    mode: child_workflow
    items_expr: "[1, 2, 3, 4, 5, 6, 7, 8]"
    do:
      steps:
        - {ref: a, type: task, task: work, next: b}
        - {ref: b, type: task, task: work, next: c}
        - {ref: c, type: task, task: work, next: d}
        - {ref: d, type: task, task: work, next: e}
        - {ref: e, type: task, task: work, next: f}
        - {ref: f, type: task, task: work}
"""
RUNS = 40
CHANGES = 12
LAG = 5


class Storm(Hosts):
    """Hosts whose handlers take from nothing to seconds, and note what they carry out."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.executions: Counter[str] = Counter()
        self.alive: list[tuple[EngineHost, AsyncExitStack]] = []

    async def come(self) -> None:
        @task("work")
        async def work(context: TaskContext) -> None:
            self.executions[context.idempotency_key] += 1
            await asyncio.sleep(self.chance.choice([0, 0.01, 0.3, 1.5]))

        @task("flaky")
        async def flaky(context: TaskContext) -> None:
            self.executions[context.idempotency_key] += 1
            await asyncio.sleep(self.chance.choice([0, 0.2]))
            if context.attempt == 1:
                raise ConnectionError("the first attempt always fails")

        stack = AsyncExitStack()
        host = await stack.enter_async_context(self.one(CHAIN, work, flaky, options=HostOptions(drain_ms=60_000)))
        self.alive.append((host, stack))

    async def leave(self) -> None:
        _, stack = self.alive.pop(self.chance.randrange(len(self.alive)))
        await stack.aclose()

    async def run_some(self) -> list[str]:
        """Start runs at a steady pace on whichever host is there, and tell each its word some time later."""
        run_ids = []
        for _ in range(RUNS):
            host, _ = self.chance.choice(self.alive)
            run_ids.append((await host.start("subject")).run_id)
            await asyncio.sleep(0.05)
            if len(run_ids) > LAG:
                await self.tell(run_ids[-LAG - 1])
        for run_id in run_ids[-LAG:]:
            await self.tell(run_id)
        return run_ids

    async def tell(self, run_id: str) -> None:
        host, _ = self.chance.choice(self.alive)
        await host.signal(run_id, "word", None)


@pytest.mark.parametrize("seed", range(12))
@virtual_time
async def test_no_attempt_is_carried_out_twice_or_lost(seed: int):
    bench = Storm(seed)
    for _ in range(3):
        await bench.come()
    starting = asyncio.create_task(bench.run_some())
    for _ in range(CHANGES):
        await asyncio.sleep(bench.chance.choice([0.05, 0.4, 1.2]))
        if len(bench.alive) == 1 or (len(bench.alive) < 4 and bench.chance.random() < 0.5):
            await bench.come()
        else:
            await bench.leave()
    run_ids = await starting
    host, _ = bench.alive[0]
    outcomes = await asyncio.gather(*(host.outcome(run_id, timeout_ms=120_000) for run_id in run_ids))
    while bench.alive:
        await bench.leave()
    assert [outcome.status for outcome in outcomes] == ["completed"] * RUNS
    assert {token: count for token, count in bench.executions.items() if count > 1} == {}
    assert len(bench.executions) == 5 * RUNS


@pytest.mark.parametrize("seed", range(6))
@virtual_time
async def test_child_runs_that_go_on_beside_their_parent_are_carried_out_once(seed: int):
    """Without Redis a child goes on at the host of its parent; its owner hears of each attempt a heartbeat later."""
    bench = Hosts(has_queue=False)
    executions: Counter[str] = Counter()
    chance = random.Random(seed)

    @task("work")
    async def work(context: TaskContext) -> None:
        executions[context.idempotency_key] += 1
        await asyncio.sleep(chance.uniform(0.1, 0.9))

    async with bench.one(CHILDREN, work) as first, bench.one(CHILDREN, work) as second, bench.one(CHILDREN, work):
        await asyncio.sleep(5)
        parents = [(await host.start("subject")).run_id for host in (first, second)]
        outcomes = await asyncio.gather(*(first.outcome(run_id, timeout_ms=120_000) for run_id in parents))
    assert [outcome.status for outcome in outcomes] == ["completed"] * 2
    assert {token: count for token, count in executions.items() if count > 1} == {}
    assert len(executions) == 2 * 8 * 6
