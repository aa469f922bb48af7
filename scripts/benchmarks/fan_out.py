"""Fan-out: one run with more and more children, many runs with some each, and children that are runs of their own."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import asyncpg

from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry, task
from ductor.definitions.compile import compile_text
from ductor.definitions.values import JsonValue
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

CHILDREN = (100, 1_000, 10_000)
QUICK_CHILDREN = (100, 1_000)
CHILD_RUNS = (1_000, 3_000, 10_000)
QUICK_CHILD_RUNS = (100, 1_000)
RUNS_SIDE_BY_SIDE = 100
CHILDREN_OF_EACH = 100
ROUNDS = 3
MEMORY_SAMPLE_S = 0.02

_DEFINITIONS = """
ductor: 1
name: inline
steps:
  - ref: each
    type: scatter
    items_expr: trigger
    max_inline_children: 10000
    do: {type: task, task: bench.child, input: {n: "${item}"}}
    next: all
  - {ref: all, type: gather, scatter_ref: each}
output: ${size(steps.all.output.result)}
---
ductor: 1
name: child_runs
steps:
  - ref: each
    type: scatter
    mode: child_workflow
    items_expr: trigger
    do: {type: task, task: bench.child, input: {n: "${item}"}}
    next: all
  - {ref: all, type: gather, scatter_ref: each}
output: ${size(steps.all.output.result)}
"""
_JOURNAL = "SELECT sum(octet_length(events::text))::bigint FROM ductor.eec_workflow_transition"


@task("bench.child")
async def child(n: int) -> int:
    """The least that a child can do."""
    return n


Round = Callable[[], Awaitable[None]]


async def measure_fan_out(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Measure all of it, the best of some rounds each."""
    table = Table(
        name="fan-out",
        title="Fan-out: from the start of the run until it has ended with the results of all children",
        columns=(
            "what",
            "children",
            "seconds",
            "us_per_child",
            "cpu_us_per_child",
            "journal_bytes_per_child",
            "peak_bytes_per_child",
        ),
        note=f"the best of {ROUNDS} rounds; cpu: of the host, without the server's; peak: growth of resident memory "
        "during the first round",
    )
    dsn = await server.fresh_database("fan_out")
    connection: asyncpg.Connection = await asyncpg.connect(dsn)
    try:
        async with _host(dsn) as host:
            await _fanned_out(host, "inline", 100)  # pays for plans
            await _fanned_out(host, "child_runs", 100)
            many = (f"{RUNS_SIDE_BY_SIDE} runs of {CHILDREN_OF_EACH} tasks", RUNS_SIDE_BY_SIDE * CHILDREN_OF_EACH)
            rounds: list[tuple[str, int, Round]] = [
                ("tasks of the run", count, partial(_fanned_out, host, "inline", count))
                for count in (QUICK_CHILDREN if is_quick else CHILDREN)
            ]
            rounds.append((*many, partial(_side_by_side, host)))
            rounds += [
                ("child runs", count, partial(_fanned_out, host, "child_runs", count))
                for count in (QUICK_CHILD_RUNS if is_quick else CHILD_RUNS)
            ]
            for what, count, one in rounds:
                await server.checkpoint()
                await _add(table, connection, what, count, one)
    finally:
        await connection.close()
    return table


async def _add(table: Table, connection: asyncpg.Connection, what: str, children: int, one: Round) -> None:
    journal_before = await connection.fetchval(_JOURNAL)
    gc.collect()
    before = _resident_bytes()
    watching = asyncio.create_task(_peak_bytes())
    timed = [await _timed(one)]
    watching.cancel()
    peak = await watching
    journal_bytes = await connection.fetchval(_JOURNAL) - journal_before
    for _ in range(ROUNDS - 1):
        gc.collect()
        timed.append(await _timed(one))
    seconds, cpu_s = (min(times) for times in zip(*timed, strict=True))
    table.add(
        what,
        children,
        round(seconds, 3),
        round(seconds / children * 1e6, 1),
        round(cpu_s / children * 1e6, 1),
        round(journal_bytes / children),
        round((peak - before) / children),
    )


async def _timed(one: Round) -> tuple[float, float]:
    """Seconds that it took, and seconds of this process's time."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await one()
    return time.perf_counter() - began_s, time.process_time() - began_cpu_s


async def _peak_bytes() -> int:
    """The most memory that was resident until this is cancelled."""
    peak = _resident_bytes()
    with suppress(asyncio.CancelledError):
        while True:
            await asyncio.sleep(MEMORY_SAMPLE_S)
            peak = max(peak, _resident_bytes())
    return max(peak, _resident_bytes())


async def _side_by_side(host: EngineHost) -> None:
    await asyncio.gather(*(_fanned_out(host, "inline", CHILDREN_OF_EACH) for _ in range(RUNS_SIDE_BY_SIDE)))


async def _fanned_out(host: EngineHost, name: str, children: int) -> None:
    trigger: JsonValue = list(range(children))
    started = await host.start(name, trigger)
    outcome = await host.outcome(started.run_id)
    assert (outcome.status, outcome.output) == ("completed", children), outcome


@asynccontextmanager
async def _host(dsn: str) -> AsyncIterator[EngineHost]:
    await migrate(dsn)
    async with PostgresStore(dsn) as store:
        host = EngineHost(store, TaskRegistry([child]), clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(_DEFINITIONS):
            await host.publish(compiled)
        async with host:
            yield host


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
