"""Closed loops of runs, and what they took."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import msgspec


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What runs took: wall time, CPU time of this process, and of each run the time from start to result."""

    runs: int
    seconds: float
    cpu_s: float
    latencies_ms: list[float]


async def closed_loop(runs: int, in_flight: int, one: Callable[[], Awaitable[object]]) -> Load:
    """Keep `in_flight` runs going until `runs` have ended."""
    latencies_ms: list[float] = []
    left = runs

    async def lane() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await one()
            latencies_ms.append((time.perf_counter() - began) * 1e3)

    # what earlier measurements left behind is not this one's to look through
    gc.collect()
    gc.freeze()
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        await asyncio.gather(*(lane() for _ in range(in_flight)))
    finally:
        gc.unfreeze()
    return Load(
        runs=runs,
        seconds=time.perf_counter() - began,
        cpu_s=time.process_time() - cpu_began,
        latencies_ms=latencies_ms,
    )


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
