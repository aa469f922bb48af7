"""The sweeper: what repairs a lost wakeup, and what a host does at intervals.

Notifications are hints, polling is the guarantee: whatever waits for a run in the database (a control, a result that
could not ride in a tick, an overdue timer, a start from elsewhere) is found here within one interval. Each host looks
at the runs that it owns. The number of queries does not depend on the number of runs. What repairs the bus, digests
and bulk controls takes turns.

At each heartbeat the host concludes which others live (see `membership`), and

- recovers the partitions that it gains; if a host has gone, with the attempts that nobody holds any more,
- hands the runs over that it owns no more,
- looks at runs whose attempts another host held, and holds no longer,
- tells handlers to stop whose attempts other hosts have withdrawn (see `withdrawn`),
- looks over all its running runs when a host has died and the others have told what they hold: the one that died may
  have held attempts of theirs.

Beating waits for nothing of this. A take-over may last longer than a heartbeat may be old, on a busy machine or where
the database comes and goes; a host that was silent meanwhile would be taken for dead, and its runs be taken over in
turn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import cycle, islice

import msgspec

from ductor.actors.engine import Engine
from ductor.actors.membership import Membership, Observation
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.journal.clock import SystemClock
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.ids import run_of_token
from ductor.journal.partitions import Partitions
from ductor.journal.records import HostRecord

HOST_ALIVE_MS = 3_000
"""A host whose heartbeat is older is gone: its runs are taken over. Hosts that beat less often than three times in it
are given the time of three heartbeats; all hosts of a database have the same interval."""

BEATS_PER_LIFE = 3

EARLY_BEAT_S = 0.2
"""The shortest pause between two heartbeats, where there is something that another host should hear soon."""

MAX_RUNS_PER_SWEEP = 1_000
RECOVERY_PAGE = 1_000
"""Runs woken in one go; the next page follows when these have been told."""

MAX_GUESTS = 10_000
"""Attempts of runs of others that a host tells of. Those beyond it may be carried out twice while they are here."""

TIMER_SLACK_US = 250_000
"""Timers of this host's own runs fire by themselves; the sweeper takes those overdue by more than this."""

_log = logging.getLogger(__name__)


def alive_ms(heartbeat_ms: int) -> int:
    """How old a heartbeat may be before its host counts as gone."""
    return max(HOST_ALIVE_MS, BEATS_PER_LIFE * heartbeat_ms)


class Due(msgspec.Struct):
    """What heartbeats have shown to be necessary and is not done yet.

    Attributes:
        take_over: partitions that are recovered with the attempts that nobody holds any more.
        recover: partitions that are recovered without them.
        dead: hosts whose wakeups nobody reads.
        to_bury: hosts whose rows are of no use any more.
        look_over_before_us: see `Observation`.
    """

    take_over: set[int] = msgspec.field(default_factory=set)
    recover: set[int] = msgspec.field(default_factory=set)
    dead: set[str] = msgspec.field(default_factory=set)
    to_bury: set[str] = msgspec.field(default_factory=set)
    look_over_before_us: int | None = None

    def __bool__(self) -> bool:
        return bool(self.take_over or self.recover or self.dead or self.to_bury or self.look_over_before_us is not None)

    def add(self, other: "Due") -> None:
        """This too."""
        self.take_over |= other.take_over
        self.recover |= other.recover
        self.dead |= other.dead
        self.to_bury |= other.to_bury
        times_us = [due.look_over_before_us for due in (self, other) if due.look_over_before_us is not None]
        self.look_over_before_us = max(times_us, default=None)


class Sweeper:
    """Sweeps, beats, hands over, and takes over from hosts that are gone."""

    def __init__(self, engine: Engine, record: HostRecord, *, sweep_ms: int, heartbeat_ms: int) -> None:
        self._sweep_s, self._heartbeat_s = sweep_ms / 1_000, heartbeat_ms / 1_000
        self._engine = engine
        self._record = record
        self._membership = Membership(record.host_id, alive_ms(heartbeat_ms) * 1_000)
        self._due = Due()
        self._is_due = asyncio.Event()
        self._settling = asyncio.Lock()
        self.always: Sequence[Callable[[int], Awaitable[None]]] = ()
        self.in_turns: Sequence[Callable[[int], Awaitable[None]]] = ()
        self._turn = 0
        self._sweeping: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, known_dead: Collection[str] = ()) -> None:
        """Register the host, recover what was left running, begin to sweep.

        Args:
            known_dead: hosts that can't live any more, whose heartbeats need not run out.
        """
        observation = await self.beat(known_dead)
        if not observation.others:
            self._due.take_over |= observation.gained
        self._note(observation)
        self._tasks.append(asyncio.create_task(self._keep_beating()))
        await _guarded(self._settle())
        self._sweeping = asyncio.create_task(self._every(self._sweep_s, self.sweep))
        self._tasks += [self._sweeping, asyncio.create_task(self._keep_settling())]

    async def drain(self) -> None:
        """Own nothing from now on, and say so. The heartbeat goes on until `stop`, and nothing else does."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        self._record = msgspec.structs.replace(self._record, is_draining=True)
        await _guarded(self._beat_and_note())
        await _guarded(self._settle())

    async def stop(self) -> None:
        """Stop sweeping and beating."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def leave(self) -> None:
        """Tell other hosts that this one is gone in order.

        One that leaves attempts behind is not removed while others live: somebody who comes at this moment would not
        see it go, and nobody take over what it owned. Its heartbeat runs out instead.
        """
        if self._engine.has_left_attempts and (await self.beat()).others:
            return
        await self._engine.store.leave(self._record.host_id)

    @property
    def neighbours(self) -> frozenset[str]:
        """Other hosts that were alive at the last heartbeat."""
        return self._membership.others

    @property
    def has_neighbours(self) -> bool:
        """Whether other hosts were alive at the last heartbeat."""
        return bool(self._membership.others)

    async def sweep(self) -> None:
        """Wake every run of this host that something waits for."""
        engine, owned = self._engine, self._membership.partitions.owned
        now_us = engine.clock.now_us() - TIMER_SLACK_US
        if owned is None or owned:
            for run_id in await engine.store.runs_to_wake(now_us, MAX_RUNS_PER_SWEEP, owned):
                engine.wake_here(run_id, reissues=False)
        engine.passivate_idle()
        for work in self.always:
            await _guarded(work(engine.clock.now_us()))
        if self.in_turns:  # an idle host asks a handful of questions a second, and no more
            work = self.in_turns[self._turn % len(self.in_turns)]
            self._turn += 1
            await _guarded(work(engine.clock.now_us()))

    async def recover(self, partitions: Partitions, *, reissues: bool) -> None:
        """Wake every run that may have been left in the middle of something."""
        last: str | None = None
        while True:
            page = await self._engine.store.runs_to_recover(last, RECOVERY_PAGE, partitions)
            for run_id in page:
                self._engine.wake_here(run_id, reissues=reissues)
            if len(page) < RECOVERY_PAGE:
                return
            last = page[-1]
            await asyncio.sleep(0)

    async def beat(self, known_dead: Collection[str] = ()) -> Observation:
        """Renew this host's heartbeat, correct its clock, and see who else is alive."""
        engine, clock = self._engine, self._engine.clock
        sent_at_us = clock.uncorrected_us() if isinstance(clock, SystemClock) else 0
        rows = await self._rows()
        if isinstance(clock, SystemClock):
            own = next(row for row in rows if row.host_id == self._record.host_id)
            clock.synchronise(own.heartbeat_at_us, sent_at_us, clock.uncorrected_us())
        was_alone = not self._membership.others
        observation = self._membership.observe(rows, known_dead)
        if was_alone and observation.others:
            engine.waiters.may_end_elsewhere()
        engine.settle(observation)
        engine.withdrawn.told(observation.elsewhere)
        for token in observation.withdrawn:
            engine.pool.cancel(token)
        return observation

    async def _rows(self) -> Sequence[HostRecord]:
        engine = self._engine
        guests = tuple(islice(engine.guest_tokens(), MAX_GUESTS))
        return await engine.store.beat(
            msgspec.structs.replace(
                self._record, tasks=engine.registry.names, guests=guests, withdrawn=engine.withdrawn.tell()
            )
        )

    async def _keep_beating(self) -> None:
        """Beat at intervals, and early where another host's guest is withdrawn: a beat tells it to stop."""
        pause_s = min(EARLY_BEAT_S, self._heartbeat_s)
        while True:
            await asyncio.sleep(pause_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._heartbeat_s - pause_s):
                    await self._engine.withdrawn.is_new.wait()
            await _guarded(self._beat_and_note())

    async def _keep_settling(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            await _guarded(self._settle())

    async def _beat_and_note(self) -> None:
        self._note(await self.beat())

    def _note(self, observation: Observation) -> None:
        """Take note of what the heartbeat has shown to be necessary; what failed before is tried again."""
        if observation.dead:
            _log.warning("taking over from %s", ", ".join(sorted(observation.dead)))
            self._due.take_over |= observation.taken_over
        self._due.add(
            Due(
                recover=set(observation.gained),
                dead=set(observation.gone),
                to_bury=set(observation.to_bury),
                look_over_before_us=observation.look_over_before_us,
            )
        )
        self._wake_runs_of(observation.released)
        if self._due:
            self._is_due.set()

    async def _settle(self) -> None:
        """Do what is necessary. What fails is done after the next heartbeat."""
        async with self._settling:
            due, self._due = self._due, Due()
            try:
                await self._do(due)
            finally:
                self._due.add(due)  # what is left of it

    async def _do(self, due: Due) -> None:
        """Strike off whatever is done."""
        if due.take_over:
            await self.recover(self._all_or(due.take_over), reissues=True)
            due.recover -= due.take_over
            due.take_over.clear()
        if due.recover:
            await self.recover(self._all_or(due.recover), reissues=False)
            due.recover.clear()
        if due.look_over_before_us is not None:
            await self._look_over(due.look_over_before_us)
            due.look_over_before_us = None
        while due.dead:
            host_id = next(iter(due.dead))
            if self._engine.wakeups is not None:
                await self._engine.wakeups.clear(host_id)  # nobody reads what others had to tell it
            due.dead.discard(host_id)
        while due.to_bury:
            host_id = next(iter(due.to_bury))
            await self._engine.store.leave(host_id)
            due.to_bury.discard(host_id)

    async def _look_over(self, before_us: int) -> None:
        """Wake every running run of this host whose journal has not grown since: attempts that nobody holds are issued
        again."""
        owned, last = self._membership.partitions.owned, None
        while owned is None or owned:
            page = await self._engine.store.idle_runs(before_us, last, RECOVERY_PAGE, owned)
            if not page:
                return
            for run in page:
                if run.at_us < before_us:
                    self._engine.wake_here(run.run_id, reissues=True)
            last = page[-1].run_id
            await asyncio.sleep(0)

    def _all_or(self, partitions: set[int]) -> Partitions:
        owned = self._membership.partitions.owned
        return None if owned is None else frozenset(partitions)

    def _wake_runs_of(self, tokens: Iterable[str]) -> None:
        """Look at runs whose attempts another host holds no more: their results are there, or they have to be issued
        again."""
        for run_id in dict.fromkeys(map(run_of_token, tokens)):
            if self._membership.partitions.owns(run_id):
                self._engine.wake_here(run_id, reissues=True)

    async def _every(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await _guarded(work())


def sharing_a_turn(*works: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
    """Work that is less pressing: each time that its turn comes, one of these."""
    in_order = cycle(works)

    def work(now_us: int) -> Awaitable[None]:
        return next(in_order)(now_us)

    return work


async def _guarded(work: Awaitable[None]) -> None:
    """What fails is tried again by the next sweep: a sweeper that ended would repair nothing any more."""
    try:
        await work
    except (StoreUnavailableError, QueueUnavailableError) as error:  # both say for themselves that they are away
        _log.debug("%s", error)
    except Exception:  # noqa: BLE001 - logged with its traceback, and tried again
        _log.exception("a part of a sweep failed")
