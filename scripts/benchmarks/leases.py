"""Leases: from the end of one holder to that of the next, however many wait, and many keys side by side."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.definitions.values import JsonValue
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.bare_loop import BareLoop
from scripts.benchmarks.load import closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

WAITERS = (100, 1_000, 10_000)
QUICK_WAITERS = (100, 1_000)
KEYS, RUNS_OF_EACH = 200, 25
QUICK_KEYS = 40
IN_FLIGHT = 256
SINGLE_RUNS = 300

_DEFINITIONS = """
ductor: 1
name: holder
steps: [{ref: hold, type: wait, signal: leave, lease: {key: "${trigger}"}}]
---
ductor: 1
name: waiter
steps: [{ref: hold, type: transform, lease: {key: "${trigger}"}}]
---
ductor: 1
name: without
steps: [{ref: hold, type: transform}]
"""


@asynccontextmanager
async def _host(dsn: str) -> AsyncIterator[EngineHost]:
    await migrate(dsn)
    async with PostgresStore(dsn) as store:
        host = EngineHost(store, TaskRegistry(), clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(_DEFINITIONS):
            await host.publish(compiled)
        async with host:
            yield host


async def measure_leases(server: BenchmarkServer, *, is_quick: bool) -> list[Table]:
    """Measure all of it."""
    dsn, bare_dsn = await server.fresh_database("leases"), await server.fresh_database("leases_bare")
    async with BareLoop(bare_dsn) as loop, _host(dsn) as host:
        await closed_loop(100, 20, lambda: _ended(host, "waiter", "warm"))  # pays for plans
        return [
            await _measure_single(host, loop),
            await _measure_handover(server, host, QUICK_WAITERS if is_quick else WAITERS),
            await _measure_keys(host, QUICK_KEYS if is_quick else KEYS),
        ]


async def _measure_single(host: EngineHost, loop: BareLoop) -> Table:
    table = Table(
        name="lease-single",
        title="A run with one step, one run at a time, from the start to the end",
        columns=("what", "p50_ms", "p99_ms"),
        note="with a lease it is two commits and the transaction that grants",
    )
    bare_ms: list[float] = []
    for _ in range(SINGLE_RUNS):
        began = time.perf_counter()
        await loop.run(2)
        bare_ms.append((time.perf_counter() - began) * 1e3)
    without = await closed_loop(SINGLE_RUNS, 1, lambda: _ended(host, "without", None))
    leased = await closed_loop(SINGLE_RUNS, 1, lambda: _ended(host, "waiter", "alone"))
    for what, values in (
        ("3 bare commits", bare_ms),
        ("without a lease", without.latencies_ms),
        ("with a lease", leased.latencies_ms),
    ):
        table.add(what, round(percentile(values, 0.5), 2), round(percentile(values, 0.99), 2))
    return table


async def _measure_handover(server: BenchmarkServer, host: EngineHost, counts: Sequence[int]) -> Table:
    table = Table(
        name="lease-handover",
        title="One key, one place: from the end of the first holder until the last of those who wait has ended",
        columns=("waiters", "ms_per_handover"),
        note="a handover: the transaction that grants, and the commit in which the next one starts, ends and leaves",
    )
    for count in counts:
        key = f"line of {count}"
        first = await _begun(host, "holder", key)
        waiters: list[str] = []

        async def wait(key: str = key, waiters: list[str] = waiters) -> None:
            waiters.append(await _begun(host, "waiter", key))

        await closed_loop(count, IN_FLIGHT, wait)
        await server.checkpoint()
        began = time.perf_counter()
        await host.signal(first, "leave")
        await asyncio.gather(*(host.outcome(run_id) for run_id in waiters))
        table.add(count, round((time.perf_counter() - began) * 1e3 / count, 3))
    return table


async def _measure_keys(host: EngineHost, keys: int) -> Table:
    table = Table(
        name="lease-keys",
        title="Many keys side by side, one place each, all runs started at once",
        columns=("keys", "runs", "runs_per_s"),
    )
    runs = keys * RUNS_OF_EACH
    numbers = iter(range(runs))
    load = await closed_loop(runs, runs, lambda: _ended(host, "waiter", f"key {next(numbers) % keys}"))
    table.add(keys, runs, round(runs / load.seconds))
    return table


async def _begun(host: EngineHost, name: str, trigger: JsonValue) -> str:
    return (await host.start(name, trigger)).run_id


async def _ended(host: EngineHost, name: str, trigger: JsonValue) -> None:
    await host.outcome(await _begun(host, name, trigger))
