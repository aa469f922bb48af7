"""The host: what a service embeds to carry out runs.

```
  new ──start──▶ running ──stop──▶ draining ──▶ stopped
```
Starting registers the host, recovers every run of its partitions that was left in the middle of something, and begins
to sweep. Stopping hands its runs over to other hosts, if there are any, lets attempts in flight finish within the drain
time, commits what their results decide, and leaves. What does not finish in time is cancelled and carried on by the
next host: the journal knows it as running.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from ductor.actors.bulk_controls import BulkCarrier
from ductor.actors.bus import EventBus
from ductor.actors.client import Client
from ductor.actors.compaction import CompactedRows
from ductor.actors.digests import Digests
from ductor.actors.engine import Engine
from ductor.actors.engine_options import EngineOptions
from ductor.actors.errors import HostStoppedError
from ductor.actors.leases import Leases
from ductor.actors.observing import Observer
from ductor.actors.queue.items import QueueDisturbance, QueueHealth
from ductor.actors.queue.opening import MakeQueue, make_queue
from ductor.actors.queue.policies import QueuePolicies
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.remote_results import ResultWatch
from ductor.actors.start import DEFAULT_TENANT
from ductor.actors.sweeper import Sweeper, alive_ms, sharing_a_turn
from ductor.actors.tasks import TaskRegistry
from ductor.actors.triggers import TriggerStarter
from ductor.actors.views import RunOutcome, Started
from ductor.actors.waiters import ALONE_POLL_S, REMOTE_POLL_S
from ductor.actors.wakeups import Wakeups
from ductor.actors.watchdog import Watchdog
from ductor.actors.worker import PoolLoad
from ductor.definitions.compile import Compiled
from ductor.definitions.errors import DuctorError
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.clock import Clock
from ductor.journal.commit import BusEvent, Commit, Payload
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import Message, RunStarted
from ductor.journal.ids import Ids
from ductor.journal.records import EventReceipt, HostRecord, PublishedDefinition, StoreHealth
from ductor.journal.store import Store

DEFINITION_CACHE_MS = 1_000
"""For so long the newest version of a definition is taken from memory: a publish elsewhere shows after this at most."""

MAX_DEFINITIONS_CACHED = 1_000

MAX_RUN_ID_DRAWS = 64
"""Ids drawn for one start until one is of a partition of this host. Of three hosts one in 10^11 starts has no luck, and
begins here all the same."""

POSTGRES_TIER = "postgres"
"""A queue of this tier alone is no faster than looking for what wakeups tell of: hosts do without these."""

DefinitionKey = tuple[str, str, str | None, str | None]
"""Tenant, name, version label, manifest hash."""

_log = logging.getLogger(__name__)


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a host behaves.

    Attributes:
        engine: its limits.
        drain_ms: how long `stop` lets attempts finish.
        sweep_ms: between two looks at what waits in the database; a wakeup that was lost is repaired within this.
        heartbeat_ms: between two signs of life of this host; the same for all hosts of a database. A host that is not
            heard of for three of them, 3 s at least, is taken for dead.
        policies: how the queue between processes serves tenants, and its bounds.
    """

    engine: EngineOptions = EngineOptions()
    drain_ms: int = 30_000
    sweep_ms: int = 500
    heartbeat_ms: int = 1_000
    policies: QueuePolicies = QueuePolicies()


class HostHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A host's state for health reports. `set_aside` maps run ids to why they are left alone, `long_runs` those that
    come near to their `continue_as_new_after` to their transitions. `waiting_for_handler` counts attempts by handlers
    that neither this host nor a living worker of their queue has. `neighbours` are other hosts that live, `partitions`
    how many this one owns, and `guests` how many attempts it holds of runs that others own."""

    host_id: str
    is_running: bool
    store: StoreHealth
    hot_runs: int
    armed_timers: int
    workers: PoolLoad | None
    waiting_for_handler: dict[str, int]
    set_aside: dict[str, str]
    long_runs: dict[str, int] = msgspec.field(default_factory=dict)
    queue: QueueHealth | None = None
    neighbours: tuple[str, ...] = ()
    partitions: int = 0
    guests: int = 0


class EngineHost(Client):
    """See the module's docstring.

    Attributes:
        queue: what takes work to other processes, open while the host runs; None where there are none.
        on_disturbance: called when the queue may have lost items, or can't serve those that it has.
    """

    def __init__(  # noqa: PLR0913 - each is a choice of its own, and most have defaults
        self,
        store: Store,
        registry: TaskRegistry,
        *,
        clock: Clock,
        ids: Ids,
        options: HostOptions | None = None,
        functions: FunctionLibrary | None = None,
        redis: RedisSettings | None = None,
        make_queue: MakeQueue = make_queue,
        observer: Observer | None = None,
    ) -> None:
        super().__init__(store, clock=clock, ids=ids, functions=functions, redis=redis)
        self._observer = observer
        self.registry = registry
        self.on_disturbance: list[Callable[[QueueDisturbance], None]] = []
        self._make_queue = partial(make_queue, store, redis, self._queue_disturbed)
        self.options = options or HostOptions()
        self.host_id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.bus = EventBus(store, TriggerStarter(store, self, functions), lambda _run_id: None)
        self._engine: Engine | None = None
        self._sweeper: Sweeper | None = None
        self._digests: Digests | None = None
        self._leases: Leases | None = None
        self._results: ResultWatch | None = None
        self._cached: dict[DefinitionKey, tuple[int, PublishedDefinition]] = {}
        self._looking: dict[DefinitionKey, asyncio.Future[PublishedDefinition]] = {}

    @property
    def engine(self) -> Engine:
        """The running engine. Raises HostStoppedError."""
        if self._engine is None:
            raise HostStoppedError
        return self._engine

    async def start_host(self) -> None:
        """Begin to carry out runs. The store is open already. A start that fails leaves nothing running."""
        if self._engine is not None:
            return
        try:
            await self._start()
        except BaseException:
            await self._stop(drain_ms=0)
            await self._close_queue()
            raise

    async def _start(self) -> None:
        queue = self._make_queue()
        if queue is not None:
            await queue.open()
        self.queue = queue
        if queue is not None:
            await self.options.policies.set(queue)
        engine = Engine(
            self.store,
            self.registry,
            clock=self.clock,
            ids=self.ids,
            options=self.options.engine,
            functions=self.functions,
            host_id=self.host_id,
            queue=queue,
            observer=self._observer,
        )
        if engine.remote is not None:
            send_again = engine.remote.send_again
            self.on_disturbance.append(lambda _disturbance: send_again())
        now_us = self.clock.now_us()
        record = HostRecord(host_id=self.host_id, started_at_us=now_us, heartbeat_at_us=now_us)
        triggers = TriggerStarter(self.store, self, self.functions)

        def wake(run_id: str) -> None:
            engine.wake(run_id, reissues=False)

        self.bus = EventBus(self.store, triggers, wake)
        digests = Digests(self.store, self.clock, wake=wake, spawn=engine.spawn)

        def lease_granted(run_id: str, message: Message) -> None:
            engine.message_stored(run_id, message, None)

        leases = Leases(self.store, told=lease_granted, spawn=engine.spawn)
        engine.leases_changed = leases.changed
        sweeper = Sweeper(engine, record, sweep_ms=self.options.sweep_ms, heartbeat_ms=self.options.heartbeat_ms)
        bulk = BulkCarrier(self.store, wake)
        watchdog = Watchdog(engine, self.host_id)
        compacted = CompactedRows(self.store)
        sweeper.always = (triggers.fire_schedules,)
        seldom = sharing_a_turn(compacted.sweep, watchdog.sweep)
        sweeper.in_turns = (self._sweep_bus, digests.sweep, leases.sweep, self._sweep_bus, bulk.sweep, seldom)
        self._engine, self._sweeper, self._digests, self._leases = engine, sweeper, digests, leases
        engine.bus_work = self._bus_work
        wake_here = partial(engine.wake_here, reissues=False)
        if queue is not None and (await queue.health()).tier != POSTGRES_TIER:
            engine.wakeups = Wakeups(queue, self.host_id, wake_here)
            engine.wakeups.start()
        elif engine.remote is not None:
            self._results = ResultWatch(self.store, engine.remote, wake_here, sweep_ms=self.options.sweep_ms)
            self._results.start()
        await sweeper.start(known_dead=await self._dead_neighbours())

    async def stop_host(self) -> None:
        """Drain and leave. Nothing happens when the host does not run."""
        sweeper = self._sweeper
        if sweeper is not None:
            await sweeper.drain()
            await self._stop(self.options.drain_ms)
            await sweeper.leave()
            await self._close_queue()

    async def _stop(self, drain_ms: int) -> None:
        """End what runs, and keep the queue open where there are others to tell. Half of it may have been started."""
        engine, sweeper, digests, leases = self._engine, self._sweeper, self._digests, self._leases
        if engine is not None and sweeper is not None and digests is not None and leases is not None:
            if self._results is not None:
                await self._results.stop()
            if sweeper.has_neighbours:
                await engine.hand_over()
            digests.stop()
            await engine.close(drain_ms)  # what its last commits free goes to others before it is over
            leases.stop()
            await sweeper.stop()
            if engine.wakeups is not None:
                await engine.wakeups.stop()
        self._engine = self._sweeper = self._digests = self._leases = self._results = None

    async def __aenter__(self) -> Self:
        await self.start_host()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_host()

    async def _close_queue(self) -> None:
        queue, self.queue = self.queue, None
        self.on_disturbance.clear()
        if queue is not None:
            await queue.close()

    def _queue_disturbed(self, disturbance: QueueDisturbance) -> None:
        _log.warning("attempts without a result go to the queue once more: %s", disturbance)
        for listener in tuple(self.on_disturbance):
            listener(disturbance)

    async def health(self) -> HostHealth:
        """What a health report says."""
        engine, store = self._engine, await self.store.health()
        return HostHealth(
            host_id=self.host_id,
            is_running=engine is not None,
            store=store,
            hot_runs=len(engine.directory) if engine else 0,
            armed_timers=len(engine.timers) if engine else 0,
            workers=engine.pool.load if engine else None,
            waiting_for_handler=await self._waiting_for_handler(engine) if engine else {},
            set_aside={run_id: str(error) for run_id, error in engine.left_alone.errors.items()} if engine else {},
            long_runs=dict(engine.long_runs.transitions) if engine else {},
            queue=await self.queue.health() if self.queue is not None else None,
            neighbours=tuple(sorted(self._sweeper.neighbours)) if self._sweeper else (),
            partitions=engine.partitions.count if engine else 0,
            guests=sum(1 for _ in engine.guest_tokens()) if engine else 0,
        )

    async def hosts(self) -> Sequence[HostRecord]:
        """Hosts that live, by the interval of heartbeats that all of a database have."""
        return await self.store.hosts(alive_within_ms=alive_ms(self.options.heartbeat_ms))

    async def _waiting_for_handler(self, engine: Engine) -> dict[str, int]:
        """Attempts that nobody who is known to live could carry out, by handler."""
        if not engine.waiting_for_handler():
            return {}
        try:
            workers = await self.workers()
        except StoreUnavailableError as error:  # what is known here is told all the same
            _log.debug("which workers live can't be told: %s", error)
            workers = ()
        return engine.waiting_for_handler(workers)

    async def start_triggered(
        self, definition: str, trigger: JsonValue, *, tenant: str, key: str, manifest_hash: str
    ) -> str:
        """See `ductor.actors.triggers.Starter`."""
        started = await self.start(definition, trigger, tenant=tenant, key=key, manifest_hash=manifest_hash)
        return started.run_id

    async def cancel_overlapped(self, run_id: str) -> None:
        """See `ductor.actors.triggers.Starter`."""
        await self.request(run_id, "cancel", by="schedule", arguments={"reason": "its successor begins"})

    async def publish(
        self, compiled: Compiled, *, tenant: str = DEFAULT_TENANT, source: str = ""
    ) -> PublishedDefinition:
        """As `Client.publish`; this host starts the new version from now on."""
        record = await super().publish(compiled, tenant=tenant, source=source)
        self._cached.clear()
        return record

    async def unpublish(self, name: str, *, tenant: str = DEFAULT_TENANT) -> int:
        """As `Client.unpublish`, at once on this host."""
        count = await super().unpublish(name, tenant=tenant)
        self._cached.clear()
        return count

    async def _time_us(self) -> int:
        return self.clock.now_us()

    def new_traceparent(self, run_id: str) -> str:
        """As `Client.new_traceparent`: what the observers say."""
        return "" if self._observer is None else self._observer.traceparent(run_id)

    def _new_run_id(self) -> str:
        """An id of a partition of this host: a run goes on where it has begun."""
        partitions = self.engine.partitions
        for _ in range(MAX_RUN_ID_DRAWS):
            run_id = self.ids.run_id()
            if partitions.owns(run_id):
                break
        return run_id

    async def _begin(
        self,
        run_id: str,
        now_us: int,
        started: RunStarted,
        payloads: list[tuple[Payload, JsonValue]],
    ) -> Started:
        if self.engine.takes_up_nothing:  # written as by a client, and found by other hosts
            return await super()._begin(run_id, now_us, started, payloads)
        return await self.engine.start(run_id, started, payloads)

    async def _program_to_start(
        self, name: str, *, tenant: str, version: str | None, manifest_hash: str | None
    ) -> Program:
        key, now_us = (tenant, name, version, manifest_hash), self.clock.now_us()
        cached = self._cached.get(key)
        if cached is None or now_us - cached[0] > DEFINITION_CACHE_MS * 1_000:
            looking = self._looking.get(key)
            if looking is None:  # however many starts wait for it, one looks
                looked_up = self.published_definition(name, tenant=tenant, version=version, manifest_hash=manifest_hash)
                looking = self._looking[key] = asyncio.ensure_future(looked_up)
                looking.add_done_callback(lambda _: self._looking.pop(key, None))
            record = await asyncio.shield(looking)
            if len(self._cached) >= MAX_DEFINITIONS_CACHED:
                self._cached.clear()
            cached = self._cached[key] = (now_us, record)
        return self.engine.programs.add(cached[1])

    async def _wait_for_end(self, run_id: str) -> RunOutcome:
        engine, sweeper = self.engine, self._sweeper
        waiter = engine.waiters.add(run_id)
        try:
            actor = engine.directory.get(run_id)
            if actor is None or not actor.is_carrying_on:  # else it will tell the end by itself
                outcome = await self.ended(run_id)
                if outcome is not None:
                    return outcome
            while True:
                is_alone = sweeper is None or not sweeper.has_neighbours
                outcome = await engine.waiters.hear(waiter, ALONE_POLL_S if is_alone else REMOTE_POLL_S)
                if outcome is not None:
                    return outcome
                engine.waiters.forget(run_id, waiter)
                waiter = engine.waiters.add(run_id)  # before the look: what ends after it is told
                if (outcome := await self.ended(run_id)) is not None:
                    return outcome
        finally:
            engine.waiters.forget(run_id, waiter)

    async def _publish_event(self, event: BusEvent) -> EventReceipt:
        # without an engine no run can be started: a host that runs finds the event
        return await (super()._publish_event(event) if self._engine is None else self.bus.publish(event))

    def _message_stored(self, run_id: str, message: Message, payload: Payload | None) -> None:
        if self._engine is not None:
            self._engine.message_stored(run_id, message, payload)

    def _bus_work(self, commit: Commit) -> None:
        """A commit has put events on the bus, or new waits: both sides look for each other. Digests go to windows."""
        if commit.digests and self._digests is not None:
            self._digests.parked(commit.run_id)
        if commit.published or commit.waits:
            self.engine.spawn(self._match_and_scan(commit))

    async def _match_and_scan(self, commit: Commit) -> None:
        try:
            for event in commit.published:
                await self.bus.match(event)
            if commit.waits:
                await self.bus.scan(commit.run_id)
        except DuctorError as error:  # the sweeper finds what is left undone
            _log.warning("%s", error)

    async def _sweep_bus(self, now_us: int) -> None:
        await self.bus.sweep(now_us)

    async def _why_set_aside(self, run_id: str) -> str | None:
        error = self._engine.left_alone.errors.get(run_id) if self._engine is not None else None
        return str(error) if error is not None else await super()._why_set_aside(run_id)

    def _requested(self, run_id: str) -> None:
        if self._engine is not None:
            self._engine.wake(run_id, reissues=False)

    async def _dead_neighbours(self) -> list[str]:
        """Hosts of this machine whose process is gone were killed: they need not be waited for."""
        machine, dead = socket.gethostname(), []
        for other in await self.store.hosts(alive_within_ms=2**31):
            name, _, rest = other.host_id.partition(":")
            pid = rest.partition(":")[0]
            if name == machine and pid.isdecimal() and not _process_exists(int(pid)):
                dead.append(other.host_id)
        return dead


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
