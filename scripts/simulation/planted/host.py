"""Bugs planted into what a host does besides carrying out runs."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ductor.actors.bus import EventBus
from ductor.actors.side_writes import SideWrites
from ductor.actors.sweeper import Sweeper
from ductor.actors.waiters import Waiters
from ductor.actors.watchdog import Watchdog
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.journal.partitions import Partitions
from scripts.simulation.planted.planting import planted, replaced


@planted("the sweeper finds no overdue timers")
def _sweeper_without_timers() -> Iterator[None]:
    runs_to_wake = MemoryStore.runs_to_wake

    async def blind(self: MemoryStore, _now_us: int, limit: int, partitions: Partitions = None) -> Sequence[str]:
        return await runs_to_wake(self, 0, limit, partitions)

    with replaced(MemoryStore, "runs_to_wake", blind):
        yield


@planted("nobody takes over the runs of a host that is gone, and the watchdog helps none of them")
def _no_take_over() -> Iterator[None]:
    async def idle(_self: Sweeper) -> None:
        await asyncio.Event().wait()

    with replaced(Sweeper, "_keep_settling", idle), replaced(Watchdog, "_help", lambda *_: None):
        yield


@planted("a new wait is not compared with the events that came just before it")
def _wait_not_scanned() -> Iterator[None]:
    async def blind(self: EventBus, run_id: str | None = None) -> int:
        waits = await self._store.unscanned_waits(500, run_id=run_id)
        for wait in waits:
            await self._store.wait_scanned(wait.run_id, wait.wait.node, wait.wait.index)
        return len(waits)

    with replaced(EventBus, "scan", blind):
        yield


@planted("who waits for an end through a host that was alone does not look elsewhere when others come")
def _waiter_stays_alone() -> Iterator[None]:
    with replaced(Waiters, "may_end_elsewhere", lambda _self: None):
        yield


@planted("timers follow the wall clock")
def _wall_clock() -> Iterator[None]:
    init = SystemClock.__init__

    def following(self: SystemClock, wall_ns: Callable[[], int], _monotonic_ns: Callable[[], int]) -> None:
        init(self, lambda: 0, wall_ns)
        self._origin_ns = 0

    with replaced(SystemClock, "__init__", following):
        yield


@planted("the result of an attempt of a paused run is not stored")
def _result_not_kept() -> Iterator[None]:
    def careless(self: SideWrites, result: Any) -> None:
        self._engine.confirm(result)

    with replaced(SideWrites, "store_result", careless):
        yield
