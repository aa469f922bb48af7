"""Where the CPU time of a step goes: ten-step runs, sampled.

A timer of the process's CPU time interrupts it a thousand times a second; the time since the last interruption goes to
the part of the engine that the innermost known frame belongs to. What is spent in C (driver, encoder, hash) counts for
the Python code that called it, or, where the event loop called it, for what runs next. The collector of garbage works
wherever an object is made; what it takes is measured by itself as well.
"""

import gc
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from scripts.benchmarks.engine_runs import engine_runs
from scripts.benchmarks.load import closed_loop
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer

STEPS = 10
RUNS_BY_IN_FLIGHT = {1: 300, 64: 3_000, 512: 3_000}
INTERVAL_S = 0.001

OTHER = "event loop, asyncio, system calls"
# By the end of a module's folder or name; the first that fits counts.
CENTRES = (
    ("/actors/tick/", "tick: decide"),
    ("/actors/steps/", "tick: decide"),
    ("/journal/fold.py", "tick: fold"),
    ("/journal/state.py", "tick: fold"),
    ("/definitions/", "tick: expressions and templates"),
    ("/journal/codec.py", "values and events: check, encode"),
    ("/journal/chain.py", "chain hash"),
    ("/journal/ids.py", "identifiers"),
    ("/journal/clock.py", "clock"),
    ("/actors/coordinator.py", "coordinator"),
    ("/actors/runtime.py", "actor messages"),
    ("/actors/directory.py", "actor messages"),
    ("/actors/replies.py", "actor messages"),
    ("/actors/messages.py", "actor messages"),
    ("/actors/engine.py", "engine, timers"),
    ("/actors/timers.py", "engine, timers"),
    ("/actors/client.py", "start and outcome"),
    ("/actors/host.py", "start and outcome"),
    ("/actors/start.py", "start and outcome"),
    ("/actors/views.py", "start and outcome"),
    ("/actors/", "worker, handler"),
    ("/journal/postgres/", "writer"),
    ("/asyncpg/", "driver (asyncpg)"),
    ("/scripts/benchmarks/", "the benchmark itself"),
)


async def measure_cost_centres(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Sample runs with 1, 64 and 512 in flight."""
    costs: dict[int, dict[str, float]] = {}
    totals: dict[int, float] = {}
    collecting: dict[int, float] = {}
    dsn = await server.fresh_database("cost_centres")
    async with engine_runs(dsn, STEPS) as runs:
        await closed_loop(256, 64, lambda: runs.run(STEPS))
        for in_flight, count in RUNS_BY_IN_FLIGHT.items():
            with sampled() as samples, collector_time() as collected_s:
                load = await closed_loop(count // 3 if is_quick else count, in_flight, lambda: runs.run(STEPS))
            totals[in_flight] = load.cpu_s / (load.runs * STEPS) * 1e6
            # the first one is that with which the loop clears away what came before it
            collecting[in_flight] = sum(collected_s[1:]) / (load.runs * STEPS) * 1e6
            share = totals[in_flight] / sum(samples.values())
            costs[in_flight] = {centre: seconds * share for centre, seconds in samples.items()}
    names = sorted({name for cost in costs.values() for name in cost}, key=lambda name: -costs[64].get(name, 0.0))
    table = Table(
        name="cost_centres",
        title="Where the CPU time of a step goes, in microseconds",
        columns=("part", *(f"{in_flight}_in_flight" for in_flight in RUNS_BY_IN_FLIGHT)),
        note="sampled; the whole process, starts and ends of runs and the handlers included",
    )
    for name in names:
        table.add(name, *(round(costs[in_flight].get(name, 0.0), 1) for in_flight in RUNS_BY_IN_FLIGHT))
    table.add("all", *(round(totals[in_flight], 1) for in_flight in RUNS_BY_IN_FLIGHT))
    table.add("of these, garbage collection", *(round(collecting[in_flight], 1) for in_flight in RUNS_BY_IN_FLIGHT))
    return table


@contextmanager
def collector_time() -> Iterator[list[float]]:
    """The CPU seconds of each garbage collection while the block runs, in their order."""
    seconds: list[float] = []
    began_s = 0.0

    def note(phase: str, _info: dict[str, int]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = time.process_time()
        else:
            seconds.append(time.process_time() - began_s)

    gc.callbacks.append(note)
    try:
        yield seconds
    finally:
        gc.callbacks.remove(note)


@contextmanager
def sampled() -> Iterator[dict[str, float]]:
    """Add up CPU seconds by part while the block runs."""
    samples: dict[str, float] = defaultdict(float)
    last_s = time.process_time()

    def sample(_number: int, frame: FrameType | None) -> None:
        nonlocal last_s
        now_s = time.process_time()  # signals that come during one call into C arrive as one
        samples[centre_of(frame)] += now_s - last_s
        last_s = now_s

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    try:
        yield samples
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def centre_of(frame: FrameType | None) -> str:
    """The part that the innermost known frame belongs to."""
    while frame is not None:
        file = frame.f_code.co_filename
        for ending, centre in CENTRES:
            if ending in file:
                return OTHER if centre == CENTRES[-1][1] and _is_base(frame) else centre
        frame = frame.f_back
    return OTHER


def _is_base(frame: FrameType) -> bool:
    """Whether a frame only runs the loop, below everything that happens in it."""
    return frame.f_code.co_name in {"main", "<module>"}
