"""ductor: an ordinary program with a host in it, all settings as they come.

Variants: `default` is such a program on asyncio's own loop; `uvloop` does what `ductor host` does for its process:
uvloop, and fewer garbage collections.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import ductor
from ductor.journal.postgres import migrate
from ductor.process import fastest_loop, tune_garbage_collector
from scripts.benchmarks.peers.sides.driver import FAN_OUT, SLEEP_S, STEPS, Options, Side, main

Document = dict[str, object]


@ductor.task("bench.noop")
async def noop(i: int) -> int:
    """Give back what came in."""
    return i


@ductor.task("bench.now")
async def now() -> float:
    """Look at the clock."""
    return time.time()


@ductor.task("bench.late")
async def late(started_s: float) -> float:
    """How much later than asked for this is called."""
    return time.time() - started_s - SLEEP_S


def definitions() -> Iterator[Document]:
    """What the program publishes."""
    for steps in (1, STEPS):
        yield _definition(f"sequence_{steps}", [_noop(number, steps) for number in range(1, steps + 1)], f"s{steps}")
    child = {"type": "task", "task": "bench.noop", "input": {"i": "${item}"}}
    for name, kind in (("fan_out", {"max_inline_children": FAN_OUT}), ("child_runs", {"mode": "child_workflow"})):
        each: Document = {"ref": "each", "type": "scatter", "items_expr": "trigger", "do": child, "next": "all", **kind}
        yield _definition(name, [each, {"ref": "all", "type": "gather", "scatter_ref": "each"}], "all")
    yield _definition("waiter", [{"ref": "go", "type": "wait", "signal": "go"}], "go")
    sleep: list[Document] = [
        {"ref": "started", "type": "task", "task": "bench.now", "next": "sleep"},
        {"ref": "sleep", "type": "wait", "duration": f"{SLEEP_S:g}s", "next": "late"},
        {"ref": "late", "type": "task", "task": "bench.late", "input": {"started_s": "${steps.started.output}"}},
    ]
    yield _definition("sleeper", sleep, "late")


def _definition(name: str, steps: list[Document], last: str) -> Document:
    return {"ductor": 1, "name": name, "steps": steps, "output": f"${{steps.{last}.output}}"}


def _noop(number: int, steps: int) -> Document:
    following = {"next": f"s{number + 1}"} if number < steps else {}
    return {"ref": f"s{number}", "type": "task", "task": "bench.noop", "input": {"i": number}, **following}


class DuctorSide(Side):
    """Runs on one host."""

    def __init__(self, host: ductor.Host, postgres_pid: int) -> None:
        self._host = host
        self._postgres_pid = postgres_pid

    def processes(self) -> dict[str, list[int]]:
        return {"program": [os.getpid()], "postgresql": [self._postgres_pid]}

    async def run(self, steps: int) -> None:
        run = await self._host.start(f"sequence_{steps}")
        assert await run.result() == steps

    async def gather_steps(self, count: int) -> int:
        return await self._gathered("fan_out", count)

    async def gather_runs(self, count: int) -> int:
        return await self._gathered("child_runs", count)

    async def _gathered(self, name: str, count: int) -> int:
        run = await self._host.start(name, list(range(count)))
        output = await run.result()
        assert isinstance(output, dict)
        results = output["result"]
        assert results == list(range(count)), results
        return len(results)

    async def park(self, number: int) -> object:
        return await self._host.start("waiter")

    async def signal(self, parked: object) -> int:
        assert isinstance(parked, ductor.RunHandle)
        await parked.signal("go", 7)
        result = await parked.result()
        assert isinstance(result, int)
        return result

    async def start_sleeper(self) -> object:
        return await self._host.start("sleeper")

    async def lateness_s(self, sleeper: object) -> float:
        assert isinstance(sleeper, ductor.RunHandle)
        result = await sleeper.result()
        assert isinstance(result, float)
        return result


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """A host on an empty database."""
    if options.variant == "uvloop":
        tune_garbage_collector()
    await migrate(options.database)  # what `ductor db migrate` does
    async with ductor.Host(tasks=[noop, now, late], definitions=list(definitions()), database=options.database) as host:
        yield DuctorSide(host, options.postgres_pid)


def loop_factory(options: Options) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of the variant."""
    if options.variant == "default":
        return None
    factory = fastest_loop()
    if factory is None:
        raise ImportError("uvloop is not installed: pip install 'ductor-engine[uvloop]'")
    return factory


if __name__ == "__main__":
    main(open_side, loop_factory)
