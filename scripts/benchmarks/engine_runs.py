"""The engine as a service embeds it: a host on PostgreSQL, no-op coroutine handlers, runs started and awaited."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry, task
from ductor.definitions.values import JsonObject
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.chain import TASK, TRIGGER, chain_name, compiled_chain


class FailedRunError(Exception):
    """A run of the benchmark did not complete."""


@task(TASK)
async def noop(n: int, sku: str, ok: bool) -> JsonObject:
    """Give back what came in: the least that a handler can do."""
    return {"n": n, "sku": sku, "ok": ok}


class EngineRuns:
    """Runs of chains on one host."""

    def __init__(self, host: EngineHost) -> None:
        self.host = host

    async def run(self, steps: int) -> None:
        """Start a run of `steps` steps and wait for its end. Raises FailedRunError."""
        started = await self.host.start(chain_name(steps), TRIGGER)
        outcome = await self.host.outcome(started.run_id)
        if outcome.status != "completed":
            raise FailedRunError(f"run {outcome.run_id} ended as {outcome.status}: {outcome.error}")


@asynccontextmanager
async def engine_runs(dsn: str, *chains: int) -> AsyncIterator[EngineRuns]:
    """A host on a fresh database, with the definitions of chains of these lengths published."""
    await migrate(dsn)
    async with PostgresStore(dsn) as store:
        host = EngineHost(store, TaskRegistry([noop]), clock=SystemClock(), ids=SystemIds())
        for steps in chains:
            await host.publish(compiled_chain(steps))
        async with host:
            yield EngineRuns(host)
