"""Ten-step runs, many in flight: the bare loop and the engine in turns, and what a step costs each of them.

Each round measures one right after the other, so that what disturbs the machine disturbs both; the ratio is the median
of the rounds' ratios.
"""

import statistics
from collections.abc import Awaitable, Callable

import msgspec

from scripts.benchmarks.bare_loop import BareLoop
from scripts.benchmarks.engine_runs import engine_runs
from scripts.benchmarks.load import Load, closed_loop, percentile
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer, Counters

STEPS = 10
RUNS_BY_IN_FLIGHT = {1: 150, 16: 600, 64: 1_200, 512: 2_560}
ROUNDS = 5
QUICK_ROUNDS = 2


class Sample(msgspec.Struct, frozen=True):
    """One load and what the server did for it."""

    load: Load
    counters: Counters

    @property
    def steps(self) -> int:
        """Steps carried out."""
        return self.load.runs * STEPS

    @property
    def steps_per_s(self) -> float:
        """Steps a second."""
        return self.steps / self.load.seconds

    @property
    def cpu_us(self) -> float:
        """CPU time of this process per step."""
        return self.load.cpu_s / self.steps * 1e6


Samples = dict[int, list[Sample]]


async def measure_throughput(server: BenchmarkServer, *, is_quick: bool) -> list[Table]:
    """Measure both sides with 1, 16, 64 and 512 runs in flight."""
    bare: Samples = {in_flight: [] for in_flight in RUNS_BY_IN_FLIGHT}
    engine: Samples = {in_flight: [] for in_flight in RUNS_BY_IN_FLIGHT}
    bare_dsn = await server.fresh_database("throughput_bare")
    engine_dsn = await server.fresh_database("throughput_engine")
    async with BareLoop(bare_dsn) as loop, engine_runs(engine_dsn, STEPS) as runs:

        async def sample(database: str, one: Callable[[], Awaitable[None]], count: int, in_flight: int) -> Sample:
            before = await server.counters(database)
            load = await closed_loop(count, in_flight, one)
            return Sample(load, (await server.counters(database)).since(before))

        async def bare_sample(count: int, in_flight: int) -> Sample:
            return await sample("throughput_bare", lambda: loop.run(STEPS), count, in_flight)

        async def engine_sample(count: int, in_flight: int) -> Sample:
            return await sample("throughput_engine", lambda: runs.run(STEPS), count, in_flight)

        await bare_sample(256, 64)
        await engine_sample(256, 64)
        await server.checkpoint()
        for number in range(QUICK_ROUNDS if is_quick else ROUNDS):
            for in_flight, count in RUNS_BY_IN_FLIGHT.items():
                for is_bare in (True, False) if number % 2 == 0 else (False, True):
                    samples, take = (bare, bare_sample) if is_bare else (engine, engine_sample)
                    samples[in_flight].append(await take(count, in_flight))
    return [_throughput_table(bare, engine), _cost_table(bare, engine)]


def _throughput_table(bare: Samples, engine: Samples) -> Table:
    table = Table(
        name="throughput",
        title=f"Throughput: runs of {STEPS} sequential no-op steps",
        columns=(
            "in_flight",
            "bare_steps_per_s",
            "engine_steps_per_s",
            "ratio",
            "bare_run_p50_ms",
            "engine_run_p50_ms",
        ),
        note="ratio: engine to bare, median over the rounds",
    )
    for in_flight in RUNS_BY_IN_FLIGHT:
        pairs = list(zip(bare[in_flight], engine[in_flight], strict=True))
        table.add(
            str(in_flight),
            round(statistics.median(one.steps_per_s for one, _ in pairs)),
            round(statistics.median(other.steps_per_s for _, other in pairs)),
            round(statistics.median(other.steps_per_s / one.steps_per_s for one, other in pairs), 2),
            round(statistics.median(percentile(one.load.latencies_ms, 0.5) for one, _ in pairs), 2),
            round(statistics.median(percentile(other.load.latencies_ms, 0.5) for _, other in pairs), 2),
        )
    return table


def _cost_table(bare: Samples, engine: Samples) -> Table:
    table = Table(
        name="cost",
        title="Cost of a step (a tenth of what a run of ten steps and eleven journal rows costs)",
        columns=("in_flight", "side", "python_us", "commits", "statements", "wal_bytes"),
        note="commits: transactions that wrote; python us: CPU time of the whole process, the handlers included",
    )
    for in_flight in RUNS_BY_IN_FLIGHT:
        for side, samples in (("bare", bare[in_flight]), ("engine", engine[in_flight])):
            table.add(
                str(in_flight),
                side,
                round(statistics.median(sample.cpu_us for sample in samples), 1),
                round(statistics.median(sample.counters.transactions / sample.steps for sample in samples), 4),
                round(statistics.median(sample.counters.statements / sample.steps for sample in samples), 4),
                round(statistics.median(sample.counters.wal_bytes / sample.steps for sample in samples)),
            )
    return table
