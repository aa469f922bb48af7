"""Actors on the loop: what a message costs, and what an actor costs that has nothing to do."""

import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any

from ductor.actors.directory import ActorDirectory
from ductor.actors.runtime import LoggingSupervisor, LoopActor, LoopActorRef
from scripts.benchmarks.report import Table

MESSAGES = 200_000
LIVE_ACTORS = 10_000
IDLE_ACTORS = 100_000


class Counting(LoopActor):
    """Counts its messages in an ordinary function."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def on_receive(self, message: Any) -> Any:  # noqa: ARG002 - any message counts
        """Count."""
        self.count += 1


class CountingLater(Counting):
    """Counts them in a coroutine."""

    async def on_receive(self, message: Any) -> Any:  # noqa: ARG002 - any message counts
        """Count."""
        self.count += 1


async def measure_actors(*, is_quick: bool) -> list[Table]:
    """Messages to one actor and to many, and idle actors."""
    messages = MESSAGES // 10 if is_quick else MESSAGES
    idle = IDLE_ACTORS // 10 if is_quick else IDLE_ACTORS
    return [await _messages(messages), await _idle(idle)]


async def _messages(count: int) -> Table:
    table = Table(name="actor-messages", title="Messages of actors", columns=("what", "us_each", "each_per_s"))

    def add(what: str, each_s: float) -> None:
        table.add(what, round(each_s * 1e6, 2), round(1 / each_s))

    add("tell and handle, one actor", await _tell(Counting.start(), count))
    add("tell and handle in a coroutine, one actor", await _tell(CountingLater.start(), count // 10))
    add("ask, reply, one after another", await _ask(Counting.start(), count // 10))
    directory: ActorDirectory[str, Counting] = ActorDirectory(lambda _: Counting(), LoggingSupervisor())
    keys = [f"run-{number}" for number in range(LIVE_ACTORS)]
    add(f"start and tell, {LIVE_ACTORS:,} actors by key", await _tell_each(directory, keys))
    add(f"tell and handle, {LIVE_ACTORS:,} actors by key", await _tell_each(directory, keys))
    await directory.close(timeout_ms=10_000)
    return table


async def _tell(actor: LoopActorRef[Any], count: int) -> float:
    await asyncio.sleep(0)
    began = time.perf_counter()
    for number in range(count):
        actor.tell(number)
    await actor.ask(None)
    return (time.perf_counter() - began) / count


async def _ask(actor: LoopActorRef[Any], count: int) -> float:
    began = time.perf_counter()
    for number in range(count):
        await actor.ask(number)
    return (time.perf_counter() - began) / count


async def _tell_each(directory: ActorDirectory[str, Counting], keys: list[str]) -> float:
    began = time.perf_counter()
    for key in keys:
        directory.tell(key, None)
    await directory.get_or_start(keys[-1]).actor_ref.ask(None)
    return (time.perf_counter() - began) / len(keys)


async def _idle(count: int) -> Table:
    table = Table(
        name="idle-actors",
        title=f"{count:,} idle actors",
        columns=("what", "each"),
        note="" if sys.platform == "linux" else "memory is measured on Linux only",
    )
    directory: ActorDirectory[str, Counting] = ActorDirectory(lambda _: Counting(), LoggingSupervisor())
    keys = [f"idle-{number}" for number in range(count)]
    gc.collect()
    before_bytes, began = _resident_bytes(), time.perf_counter()
    for key in keys:
        directory.get_or_start(key)
    await asyncio.sleep(0)
    table.add("start, us", round((time.perf_counter() - began) / count * 1e6, 2))
    after_bytes = _resident_bytes()
    if before_bytes is not None and after_bytes is not None:
        table.add("memory, bytes", round((after_bytes - before_bytes) / count))
    began = time.perf_counter()
    for actor in directory:
        actor.stop_if_idle()
    table.add("stop, us", round((time.perf_counter() - began) / count * 1e6, 2))
    return table


def _resident_bytes() -> int | None:
    statistics = Path("/proc/self/statm")
    return int(statistics.read_text().split()[1]) * 4_096 if statistics.exists() else None
