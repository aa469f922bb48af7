"""The same load on journals of a thousand to a million rows: what a tick costs must not depend on what lies there."""

import statistics
from contextlib import AsyncExitStack

import asyncpg

from ductor.journal.postgres import migrate
from scripts.benchmarks.chain import chain_name, chain_program, whole_run
from scripts.benchmarks.engine_runs import engine_runs
from scripts.benchmarks.load import Load, closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

STEPS = 10
SIZES = (1_000, 100_000, 1_000_000)
QUICK_SIZES = (1_000, 100_000)
ROUNDS = 5
QUICK_ROUNDS = 3
LOADS = {1: 60, 64: 600}  # runs by number in flight

_HEADS = """
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    ended_at_us, search_attributes)
SELECT ('01700000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, 'default', $2, 'none', 'completed', 1, 1, 1,
    '{}'
FROM generate_series(1, $1::integer) AS number
"""
_ROWS = """
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT ('01700000-0000-7000-8000-' || lpad(to_hex(number), 12, '0'))::uuid, version, gen_random_uuid(), 1,
    ($2::json[])[version], sha256(number::text::bytea)
FROM generate_series(1, $1::integer) AS number, generate_series(1, cardinality($2::json[])) AS version
"""


async def measure_journal_size(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Fill a database for each size, then put the same load on all of them in turns."""
    sizes = QUICK_SIZES if is_quick else SIZES
    loads: dict[tuple[int, int], list[Load]] = {(size, in_flight): [] for size in sizes for in_flight in LOADS}
    async with AsyncExitStack() as stack:
        hosts = {}
        for size in sizes:
            dsn = await server.fresh_database(f"journal_{size}")
            await migrate(dsn)
            await _fill(dsn, size)
            hosts[size] = await stack.enter_async_context(engine_runs(dsn, STEPS))
        await server.checkpoint()
        for runs in hosts.values():
            await closed_loop(64, 64, lambda runs=runs: runs.run(STEPS))  # type: ignore[misc]  # bound at once
        for _ in range(QUICK_ROUNDS if is_quick else ROUNDS):
            for in_flight, count in LOADS.items():
                for size, runs in hosts.items():
                    load = await closed_loop(count, in_flight, lambda runs=runs: runs.run(STEPS))  # type: ignore[misc]
                    loads[size, in_flight].append(load)
    table = Table(
        name="journal_size",
        title=f"Journals of different sizes: {STEPS}-step runs on each",
        columns=("rows_before", "in_flight", "ms_per_tick", "us_per_tick_python", "ratio_to_smallest"),
        note="ms per tick: at 1 in flight the time of a run by its commits, else wall time by all commits",
    )
    for in_flight in LOADS:
        smallest = statistics.median(_tick_ms(load, in_flight) for load in loads[sizes[0], in_flight])
        for size in sizes:
            samples = loads[size, in_flight]
            tick_ms = statistics.median(_tick_ms(load, in_flight) for load in samples)
            cpu_us = statistics.median(load.cpu_s / _ticks(load) * 1e6 for load in samples)
            table.add(f"{size:,}", in_flight, round(tick_ms, 4), round(cpu_us, 1), round(tick_ms / smallest, 2))
    return table


def _ticks(load: Load) -> int:
    return load.runs * (STEPS + 1)


def _tick_ms(load: Load, in_flight: int) -> float:
    if in_flight == 1:
        return percentile(load.latencies_ms, 0.5) / (STEPS + 1)
    return load.seconds * 1e3 / _ticks(load)


async def _fill(dsn: str, rows: int) -> None:
    texts = [row.events.decode() for row in whole_run(chain_program(STEPS))]
    count = -(-rows // len(texts))
    connection: asyncpg.Connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_HEADS, count, chain_name(STEPS))
        await connection.execute(_ROWS, count, texts)
    finally:
        await connection.close()
