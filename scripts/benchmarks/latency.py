"""One run at a time: from start to result, beside the commits that it can't do without.

A run of n steps is n + 1 commits, one after the other. The bare loop does those and nothing else.
"""

import statistics
from collections.abc import Awaitable, Callable

from scripts.benchmarks.bare_loop import BareLoop
from scripts.benchmarks.engine_runs import engine_runs
from scripts.benchmarks.load import closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

STEPS = (1, 10)
RUNS_PER_ROUND = {1: 100, 10: 25}
ROUNDS = 12
QUICK_ROUNDS = 4


async def measure_latency(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Measure runs of one and of ten steps."""
    bare: dict[int, list[list[float]]] = {steps: [] for steps in STEPS}
    engine: dict[int, list[list[float]]] = {steps: [] for steps in STEPS}
    bare_dsn = await server.fresh_database("latency_bare")
    engine_dsn = await server.fresh_database("latency_engine")
    async with BareLoop(bare_dsn) as loop, engine_runs(engine_dsn, *STEPS) as runs:

        async def one_at_a_time(one: Callable[[int], Awaitable[None]], steps: int) -> list[float]:
            return (await closed_loop(RUNS_PER_ROUND[steps], 1, lambda: one(steps))).latencies_ms

        for steps in STEPS:  # the first of each pays for plans
            await one_at_a_time(loop.run, steps)
            await one_at_a_time(runs.run, steps)
        await server.checkpoint()
        for _ in range(QUICK_ROUNDS if is_quick else ROUNDS):
            for steps in STEPS:
                bare[steps].append(await one_at_a_time(loop.run, steps))
                engine[steps].append(await one_at_a_time(runs.run, steps))
    table = Table(
        name="latency",
        title="Latency: one run at a time, from start to result, beside its commits alone",
        columns=("run", "bare_p50_ms", "bare_p99_ms", "engine_p50_ms", "engine_p99_ms", "ratio_p50"),
        note="ratio: of the medians, median over the rounds",
    )
    for steps in STEPS:
        all_bare = [value for values in bare[steps] for value in values]
        all_engine = [value for values in engine[steps] for value in values]
        ratios = [
            percentile(engine_values, 0.5) / percentile(bare_values, 0.5)
            for bare_values, engine_values in zip(bare[steps], engine[steps], strict=True)
        ]
        table.add(
            f"{steps} steps, {steps + 1} commits" if steps > 1 else "1 step, 2 commits",
            round(percentile(all_bare, 0.5), 2),
            round(percentile(all_bare, 0.99), 2),
            round(percentile(all_engine, 0.5), 2),
            round(percentile(all_engine, 0.99), 2),
            round(statistics.median(ratios), 2),
        )
    return table
