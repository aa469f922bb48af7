"""The sweeper: what repairs a lost wakeup, and what a host does at intervals.

Notifications are hints, polling is the guarantee: whatever waits for a run in the database (a control, a result that
could not ride in a tick, an overdue timer, a start from elsewhere) is found here within one interval. The number of
queries does not depend on the number of runs. What repairs the bus, digests and bulk controls takes turns.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ductor.actors.engine import Engine
from ductor.journal.clock import SystemClock
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.records import HostRecord

HOST_ALIVE_MS = 20_000
"""A host whose heartbeat is older is gone: its runs are taken over."""

BEATS_UNTIL_KNOWN = 2
"""Heartbeats after which every other host that is alive has seen this one."""

MAX_RUNS_PER_SWEEP = 1_000
RECOVERY_PAGE = 1_000
"""Runs woken in one go; the next page follows when these have been told."""

TIMER_SLACK_US = 250_000
"""Timers of this host's own runs fire by themselves; the sweeper takes those overdue by more than this."""

_log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps, beats, and takes over from hosts that are gone."""

    def __init__(self, engine: Engine, record: HostRecord, *, sweep_ms: int, heartbeat_ms: int) -> None:
        self._sweep_s, self._heartbeat_s = sweep_ms / 1_000, heartbeat_ms / 1_000
        self._engine = engine
        self._record = record
        self._others: frozenset[str] = frozenset()
        self._has_to_take_over = False
        self._is_known_at_s = 0.0
        self.always: Sequence[Callable[[int], Awaitable[None]]] = ()
        self.in_turns: Sequence[Callable[[int], Awaitable[None]]] = ()
        self._turn = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, takes_over: bool) -> None:
        """Register the host, recover what was left running, begin to sweep.

        Args:
            takes_over: the host has removed a dead one, whom others may never have seen, so that none would take over.
        """
        await self.beat()
        self._is_known_at_s = asyncio.get_running_loop().time() + BEATS_UNTIL_KNOWN * self._heartbeat_s
        await self.recover(reissues=takes_over or not self._others)
        self._tasks = [asyncio.create_task(self._every(self._sweep_s, self.sweep))]
        self._tasks.append(asyncio.create_task(self._every(self._heartbeat_s, self._beat_and_take_over)))

    async def stop(self) -> None:
        """Stop sweeping and beating."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def leave(self) -> None:
        """Tell other hosts that this one is gone in order.

        One that leaves attempts behind before all others have seen it is not removed: nobody would see it go and take
        over. Its heartbeat runs out instead.
        """
        store, own_id = self._engine.store, self._record.host_id
        if self._engine.has_left_attempts and asyncio.get_running_loop().time() < self._is_known_at_s:
            alive = await store.hosts(alive_within_ms=HOST_ALIVE_MS)
            if any(host.host_id != own_id for host in alive):
                return
        await store.leave(own_id)

    @property
    def has_neighbours(self) -> bool:
        """Whether other hosts were alive at the last heartbeat."""
        return bool(self._others)

    async def sweep(self) -> None:
        """Wake every run that something waits for."""
        now_us = self._engine.clock.now_us() - TIMER_SLACK_US
        for run_id in await self._engine.store.runs_to_wake(now_us, MAX_RUNS_PER_SWEEP):
            self._engine.wake(run_id, reissues=not self._others)
        self._engine.passivate_idle()
        for work in self.always:
            await _guarded(work(self._engine.clock.now_us()))
        if self.in_turns:  # an idle host asks a handful of questions a second, and no more
            work = self.in_turns[self._turn % len(self.in_turns)]
            self._turn += 1
            await _guarded(work(self._engine.clock.now_us()))

    async def recover(self, *, reissues: bool) -> None:
        """Wake every run that may have been left in the middle of something."""
        last: str | None = None
        while True:
            page = await self._engine.store.runs_to_recover(last, RECOVERY_PAGE)
            for run_id in page:
                self._engine.wake(run_id, reissues=reissues)
            if len(page) < RECOVERY_PAGE:
                return
            last = page[-1]
            await asyncio.sleep(0)

    async def beat(self) -> None:
        """Renew this host's heartbeat, correct its clock, and see who else is alive."""
        engine = self._engine
        tasks = engine.registry.names
        await engine.store.beat(msgspec.structs.replace(self._record, tasks=tasks))
        if isinstance(engine.clock, SystemClock):
            sent_at_us = engine.clock.uncorrected_us()
            database_now_us = await engine.store.now_us()
            engine.clock.synchronise(database_now_us, sent_at_us, engine.clock.uncorrected_us())
        alive = await engine.store.hosts(alive_within_ms=HOST_ALIVE_MS)
        self._others = frozenset(host.host_id for host in alive) - {self._record.host_id}

    async def _beat_and_take_over(self) -> None:
        before = self._others
        await self.beat()
        if before - self._others:
            _log.warning("taking over from %s", ", ".join(sorted(before - self._others)))
            self._has_to_take_over = True
        if self._has_to_take_over:
            await self.recover(reissues=True)
            self._has_to_take_over = False  # not before it is done: the database may go away in the middle of it

    async def _every(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await _guarded(work())


async def _guarded(work: Awaitable[None]) -> None:
    """What fails is tried again by the next sweep: a sweeper that ended would repair nothing any more."""
    try:
        await work
    except StoreUnavailableError as error:
        _log.warning("%s", error)
    except Exception:  # noqa: BLE001 - logged with its traceback, and tried again
        _log.exception("a part of a sweep failed")
