"""What all sides share: the workloads, the command line, and the one line that a side prints.

A side is a `Side`: what one system offers, in that system's own words. The workloads are written here once, over a
side, so that every system is asked for the same work in the same manner. Only the standard library is used: each side
is run by a Python that has one system and nothing else installed.

The measuring process holds the other end of standard input. When it goes, by whatever death, the side stops itself and
everything that it started.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from scripts.benchmarks.peers.sides.processes import memory_bytes

T = TypeVar("T")
R = TypeVar("R")

STEPS = 10
"""Of a run of W1 and of W2b."""

FAN_OUT = 1_000
WARM_UP_FAN_OUT = 10
SLEEP_S = 5.0
SIGNALS_ONE_AT_A_TIME = 200
SETTLE_S = 2.0
"""Until runs that were started have certainly reached their wait."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What a side is asked for.

    Attributes:
        runs: how many; `in_flight` of them at a time.
        database: address of an empty PostgreSQL database, whose server is the process `postgres_pid`.
        folder: an empty folder for files, gone afterwards.
        cache: where systems are installed.
    """

    workload: str
    variant: str
    runs: int
    in_flight: int
    database: str
    postgres_pid: int
    folder: str
    cache: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result:
    """What a workload took: in all, each of its runs, and what else it tells (name with unit to value)."""

    seconds: float
    runs: int
    steps: int
    latencies_s: Sequence[float]
    more: dict[str, float] = dataclasses.field(default_factory=dict)


class WrongResultError(Exception):
    """A system gave another result than the work has: nothing that it took is worth a figure."""


class Side:
    """One system. A workload that it does not offer is not asked of it; see `systems.py`.

    Attributes:
        is_backlog: W1 sends all runs at once and waits for the last, because the system has no prompt wait for one.
    """

    is_backlog = False

    def processes(self) -> dict[str, list[int]]:
        """Process ids of what holds parked runs, by name; whole trees are meant."""
        raise NotImplementedError

    async def run(self, steps: int) -> None:
        """Start a run of sequential no-op steps and wait for its end."""
        raise NotImplementedError

    async def work_off(self, runs: int, steps: int) -> None:
        """Send runs of sequential no-op steps, all at once, and wait until all have ended."""
        raise NotImplementedError

    async def gather_steps(self, count: int) -> int:
        """Start one run that carries out `count` steps at once; how many results it has gathered."""
        raise NotImplementedError

    async def gather_runs(self, count: int) -> int:
        """Start one run that starts `count` child runs; how many results it has gathered."""
        raise NotImplementedError

    async def park(self, number: int) -> object:
        """Start a run that waits for a signal."""
        raise NotImplementedError

    async def signal(self, parked: object) -> int:
        """Send 7 to a parked run; the run's result, which is what it was sent."""
        raise NotImplementedError

    async def start_sleeper(self) -> object:
        """Start a run that sleeps for `SLEEP_S` and then looks at the clock."""
        raise NotImplementedError

    async def sleepers_done(self) -> None:
        """Return when all sleepers have ended. A side that waits for each alone has nothing to do here."""

    async def lateness_s(self, sleeper: object) -> float:
        """How much later than asked for the run went on, as it saw itself."""
        raise NotImplementedError


MakeSide = Callable[[Options], AbstractAsyncContextManager[Side]]


async def closed_loop(runs: int, in_flight: int, one: Callable[[], Awaitable[object]]) -> tuple[float, list[float]]:
    """Keep `in_flight` runs going until `runs` have ended; seconds in all and of each."""
    numbers = iter(range(runs))
    latencies_s: list[float] = []

    async def lane() -> None:
        for _ in numbers:
            began = time.perf_counter()
            await one()
            latencies_s.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(in_flight)))
    return time.perf_counter() - began, latencies_s


async def at_most(in_flight: int, items: Iterable[T], one: Callable[[T], Awaitable[R]]) -> list[R]:
    """`one` of every item, `in_flight` at a time; results in order."""
    gate = asyncio.Semaphore(in_flight)

    async def guarded(item: T) -> R:
        async with gate:
            return await one(item)

    return await asyncio.gather(*(guarded(item) for item in items))


async def _sequences(side: Side, options: Options, steps: int) -> Result:
    await side.run(1)
    await side.run(steps)
    if side.is_backlog and options.in_flight > 1:
        began = time.perf_counter()
        await side.work_off(options.runs, steps)
        seconds, latencies_s = time.perf_counter() - began, list[float]()
    else:
        seconds, latencies_s = await closed_loop(options.runs, options.in_flight, lambda: side.run(steps))
    return Result(seconds=seconds, runs=options.runs, steps=options.runs * steps, latencies_s=latencies_s)


async def _gathers(options: Options, gather: Callable[[int], Awaitable[int]]) -> Result:
    async def gathered(count: int) -> None:
        results = await gather(count)
        if results != count:
            raise WrongResultError(f"{count} children, but {results} results")

    await gathered(WARM_UP_FAN_OUT)
    seconds, latencies_s = await closed_loop(options.runs, 1, lambda: gathered(FAN_OUT))
    return Result(seconds=seconds, runs=options.runs, steps=options.runs * FAN_OUT, latencies_s=latencies_s)


async def _signals(side: Side, options: Options) -> Result:
    async def signalled(parked: object) -> None:
        result = await side.signal(parked)
        if result != 7:
            raise WrongResultError(f"a run that was sent 7 gave {result!r}")

    await signalled(await side.park(-1))
    before = {name: memory_bytes(pids) for name, pids in side.processes().items()}
    began = time.perf_counter()
    parked = await at_most(options.in_flight, range(options.runs), side.park)
    park_s = time.perf_counter() - began
    await asyncio.sleep(SETTLE_S)
    after = {name: memory_bytes(pids) for name, pids in side.processes().items()}
    waiting = iter(parked[:SIGNALS_ONE_AT_A_TIME])
    _, latencies_s = await closed_loop(min(len(parked), SIGNALS_ONE_AT_A_TIME), 1, lambda: signalled(next(waiting)))
    drain_began = time.perf_counter()
    rest = parked[SIGNALS_ONE_AT_A_TIME:]
    await at_most(options.in_flight, rest, signalled)
    more = {"parks_per_s": options.runs / park_s}
    if rest:
        more["signalled_per_s"] = len(rest) / (time.perf_counter() - drain_began)
    for name, bytes_before in before.items():
        more[f"bytes_each_in_{name}"] = (after[name] - bytes_before) / options.runs
    return Result(seconds=time.perf_counter() - began, runs=options.runs, steps=0, latencies_s=latencies_s, more=more)


async def _sleepers(side: Side, options: Options) -> Result:
    await side.run(1)
    began = time.perf_counter()
    sleepers = await at_most(options.in_flight, range(options.runs), lambda _: side.start_sleeper())
    started_s = time.perf_counter() - began
    await side.sleepers_done()
    late_s = await at_most(options.in_flight, sleepers, side.lateness_s)
    if min(late_s) < 0:
        raise WrongResultError(f"a run woke {-min(late_s):.3f} s too early")
    return Result(
        seconds=time.perf_counter() - began,
        runs=options.runs,
        steps=0,
        latencies_s=late_s,
        more={"started_s": started_s},
    )


WORKLOADS: dict[str, Callable[[Side, Options], Awaitable[Result]]] = {
    "W1": lambda side, options: _sequences(side, options, STEPS),
    "W2a": lambda side, options: _sequences(side, options, 1),
    "W2b": lambda side, options: _sequences(side, options, STEPS),
    "W3": lambda side, options: _gathers(options, side.gather_steps),
    "W3c": lambda side, options: _gathers(options, side.gather_runs),
    "W4": _signals,
    "W5": _sleepers,
}


def main(
    make_side: MakeSide, loop_factory: Callable[[Options], Callable[[], asyncio.AbstractEventLoop] | None]
) -> None:
    """Do what the command line asks for, and print the result as one line of JSON.

    Args:
        make_side: opens the system and everything it needs.
        loop_factory: what makes the event loop; None for asyncio's own.
    """
    options = read_options(sys.argv[1:])
    stop_with_parent()
    with asyncio.Runner(loop_factory=loop_factory(options)) as runner:
        result = runner.run(_carry_out(make_side, options))
    print(json.dumps(dataclasses.asdict(result)), flush=True)


async def _carry_out(make_side: MakeSide, options: Options) -> Result:
    async with make_side(options) as side:
        return await WORKLOADS[options.workload](side, options)


def asyncio_loop(_options: Options) -> None:
    """The loop factory of a side that runs on asyncio's own loop."""


def read_options(arguments: Sequence[str]) -> Options:
    """Read a side's command line."""
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(Options):
        of_type = int if field.type is int else str
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=of_type, required=True)
    options = Options(**vars(parser.parse_args(arguments)))
    if options.workload not in WORKLOADS:
        parser.error(f"unknown workload {options.workload}; there are: {', '.join(WORKLOADS)}")
    return options


def stop_with_parent() -> None:
    """Kill this process and its group when standard input ends: the measuring process holds the other end."""

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent watch", daemon=True).start()
