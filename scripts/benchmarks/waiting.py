"""Runs that wait: what parked ones cost, how late timers are, and how long a signal takes to end a run."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from ductor.actors.host import EngineHost
from ductor.actors.tasks import TaskRegistry
from ductor.definitions.compile import compile_text
from ductor.definitions.durations import format_timestamp_us
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.benchmarks.bare_loop import BareLoop
from scripts.benchmarks.load import closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

PARKED = (10_000, 100_000)
QUICK_PARKED = (1_000, 10_000)
TIMERS = 10_000
QUICK_TIMERS = 2_000
IN_FLIGHT = 256
IDLE_S = 10.0
"""How long the idle host is watched."""

LEAD_S = 3.0
"""Timers are due so long after the last run has parked, so that starts are not in their way."""

SIGNALS = 400
SEQUENTIAL_COMMITS = 5

_DEFINITIONS = """
ductor: 1
name: signalled
steps: [{ref: park, type: wait, signal: go}]
---
ductor: 1
name: sleeper
steps: [{ref: park, type: wait, until_expr: trigger.until}]
"""
_TABLES = """
SELECT sum(n_live_tup)::bigint AS rows, sum(pg_total_relation_size(relid))::bigint AS bytes
FROM pg_stat_user_tables WHERE schemaname = 'ductor'
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


async def measure_parked(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Park more and more runs, and watch the host do nothing."""
    table = Table(
        name="parked",
        title="Parked runs on one host",
        columns=("parked", "parks_per_s", "host_bytes_each", "rows_each", "table_bytes_each", "idle_statements_per_s"),
        note="host bytes: growth of resident memory, coordinators leaving it but for the newest "
        f"{QUICK_PARKED[1]:,}; idle: {IDLE_S:.0f} s without any work",
    )
    dsn = await server.fresh_database("parked")
    async with _host(dsn) as host:
        connection: asyncpg.Connection = await asyncpg.connect(dsn)
        try:
            before_bytes, done = _resident_bytes(), 0
            for count in QUICK_PARKED if is_quick else PARKED:
                began = time.perf_counter()
                await closed_loop(count - done, IN_FLIGHT, lambda: _start(host, "signalled"))
                parks_per_s, done = (count - done) / (time.perf_counter() - began), count
                await connection.execute("ANALYZE")
                row = await connection.fetchrow(_TABLES)
                assert row is not None
                before = await server.counters("parked")
                await asyncio.sleep(IDLE_S)
                idle = (await server.counters("parked")).since(before)
                table.add(
                    count,
                    round(parks_per_s),
                    round((_resident_bytes() - before_bytes) / count),
                    round(row["rows"] / count, 1),
                    round(row["bytes"] / count),
                    round(idle.statements / IDLE_S, 1),
                )
        finally:
            await connection.close()
    return table


async def measure_timers(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Let many timers come due within one second."""
    count = QUICK_TIMERS if is_quick else TIMERS
    table = Table(
        name="timers",
        title=f"{count:,} timers due within one second",
        columns=("what", "p50_ms", "p99_ms", "max_ms"),
        note="lateness: from the deadline to the time of the journal row that the timer made, never before it",
    )
    dsn = await server.fresh_database("timers")
    async with _host(dsn) as host:
        await closed_loop(200, IN_FLIGHT, lambda: _start(host, "signalled"))  # pays for plans
        first_us = host.clock.now_us() + round((LEAD_S + count / 1_500) * 1e6)
        due: dict[str, int] = {}

        async def sleeper() -> None:
            at_us = first_us + round(len(due) * 1e6 / count)
            due[f"?{len(due)}"] = at_us  # holds the place until the run has its id
            started = await host.start("sleeper", {"until": format_timestamp_us(at_us)})
            due[started.run_id] = at_us

        await closed_loop(count, IN_FLIGHT, sleeper)
        runs = {run_id: at_us for run_id, at_us in due.items() if not run_id.startswith("?")}
        await server.checkpoint()
        await asyncio.gather(*(host.outcome(run_id) for run_id in runs))
        late_ms = sorted([await _lateness_ms(host, run_id, at_us) for run_id, at_us in runs.items()])
    table.add("lateness", *(round(percentile(late_ms, share), 1) for share in (0.5, 0.99, 1.0)))
    return table


async def measure_signals(server: BenchmarkServer) -> Table:
    """Send a signal to a parked run and wait for its end, one at a time, beside bare commits."""
    table = Table(
        name="signals",
        title="Signal to a parked run, until the run has finished, one at a time",
        columns=("what", "p50_ms", "p99_ms"),
        note="a bare run of four steps is five sequential commits",
    )
    engine_dsn, bare_dsn = await server.fresh_database("signals"), await server.fresh_database("signals_bare")
    async with BareLoop(bare_dsn) as loop, _host(engine_dsn) as host:

        async def signal() -> float:
            run_id = await _start(host, "signalled")
            began = time.perf_counter()
            await host.signal(run_id, "go")
            await host.outcome(run_id)
            return (time.perf_counter() - began) * 1e3

        for _ in range(20):
            await signal()
            await loop.run(SEQUENTIAL_COMMITS - 1)
        engine_ms: list[float] = []
        bare_ms: list[float] = []
        for _ in range(SIGNALS):
            engine_ms.append(await signal())
            began = time.perf_counter()
            await loop.run(SEQUENTIAL_COMMITS - 1)
            bare_ms.append((time.perf_counter() - began) * 1e3)
    for what, values in ((f"{SEQUENTIAL_COMMITS} bare commits", bare_ms), ("signal to finished run", engine_ms)):
        table.add(what, round(percentile(values, 0.5), 2), round(percentile(values, 0.99), 2))
    return table


async def _start(host: EngineHost, name: str) -> str:
    return (await host.start(name)).run_id


async def _lateness_ms(host: EngineHost, run_id: str, at_us: int) -> float:
    rows = await host.store.history(run_id, after_version=1)
    return (rows[0].at_us - at_us) / 1e3


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
