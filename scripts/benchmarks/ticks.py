"""One tick of runs of different sizes: what it costs must not depend on the number of steps.

Only the pure part: decide, encode, hash. Each size is ticked the same number of times, spread over its chain, and the
sizes take turns, so that what disturbs the machine disturbs them alike.
"""

import gc
import statistics
import time

from ductor.definitions.program import Program
from ductor.journal.state import RunState
from scripts.benchmarks.chain import RUN_ID, chain_program, first_tick, next_tick, sealed_row
from scripts.benchmarks.report import Table

SIZES = (10, 100, 1_000, 10_000)
TICKS_PER_BATCH = 9  # what the smallest run has between its first tick and its last
TICKS_PER_ROUND = 5_000
ROUNDS = 5


def measure_ticks(*, is_quick: bool) -> Table:
    """Tick chains of 10 to 10,000 steps."""
    ticks = TICKS_PER_ROUND // 5 if is_quick else TICKS_PER_ROUND
    programs = {size: chain_program(size) for size in SIZES}
    samples: dict[int, list[float]] = {size: [] for size in SIZES}
    gc.collect()
    gc.freeze()
    try:
        for _ in range(ROUNDS):
            for size, program in programs.items():
                samples[size].append(_tick_us(program, ticks))
    finally:
        gc.unfreeze()
    table = Table(
        name="tick",
        title="Tick: decide, encode and hash one sequential step",
        columns=("steps_in_run", "us_per_tick", "ratio_to_smallest"),
    )
    smallest = statistics.median(samples[SIZES[0]])
    for size in SIZES:
        median = statistics.median(samples[size])
        table.add(f"{size:,}", round(median, 2), round(median / smallest, 2))
    return table


def _tick_us(program: Program, ticks: int) -> float:
    """Microseconds of one tick that applies a result and dispatches the next step: the median over batches."""
    batches: list[float] = []
    while len(batches) * TICKS_PER_BATCH < ticks:
        state = RunState(run_id=RUN_ID)
        payload = first_tick(program, state)
        sealed_row(state, payload)
        for _ in range((len(program.nodes) - 1) // TICKS_PER_BATCH):
            began = time.perf_counter()
            for _ in range(TICKS_PER_BATCH):
                payload = next_tick(program, state, payload.dispatched[0])
                sealed_row(state, payload)
            batches.append((time.perf_counter() - began) / TICKS_PER_BATCH * 1e6)
    return statistics.median(batches)
