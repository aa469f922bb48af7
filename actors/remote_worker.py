"""A worker process: leases attempts from queues, runs their handlers, and brings what they give into the journal.

```
  lease ──▶ checked ──▶ in the pool ──▶ finished ──▶ row durable ──▶ acknowledged
              │            │
              │            ├─ its lease was lost, and somebody else has or gets the attempt: stopped, no result
              │            ├─ its item is gone, and its run wants the attempt no more: cancelled, with what it gives
              │            └─ its item is gone, and its run wants it (the queue lost it): it goes on
              ├─ the journal has its result: acknowledged
              └─ no such handler here, or no room: given back, after a pause
```
Invariants:
- The process has `concurrency` leases at most, those of results that are not durable among them.
- A lease is renewed three times within its time, whatever the handler does, unless it blocks the event loop.
- An item is acknowledged only after the row with its result is durable.

Failure cases:
- The worker dies, or is stopped for longer than a lease: the item goes to another one, under the same token. If both
  end it, the first row counts.
- The database is away: results stay in keeping, and their leases are renewed. The queue is away: what runs goes on.
- An item that this version can't read is left until its lease runs out, and is set aside after MAX_DELIVERIES.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ductor.actors.attempt import Attempt
from ductor.actors.log_fields import attempt_fields
from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.observing import Observer
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.errors import QueueItemRefusedError, QueueUnavailableError
from ductor.actors.queue.items import Lease, QueueHealth, TaskWork
from ductor.actors.remote_reports import ResultReporter
from ductor.actors.tasks import TaskRegistry
from ductor.actors.worker import PoolLoad, WorkerPool
from ductor.actors.worker_options import WorkerOptions, check_queues
from ductor.journal.clock import Clock, SystemClock
from ductor.journal.codec import decode_value
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.replay import loaded_state
from ductor.journal.state import RunState
from ductor.journal.store import Store
from ductor.journal.worker_store import WORKER_BEAT_MS, WorkerRecord

LEASE_WAIT_MS: Final = 20_000
"""How long one call waits for items."""
CHECK_S: Final = 1.0
"""Between two looks at whether what runs is still wanted: a cancellation gets here within this."""
NO_HANDLER_PAUSE_S: Final = 1.0
"""An item whose handler is missing is given back after this, so that it does not come back at once."""
UNAVAILABLE_PAUSE_S: Final = 0.5
"""Between two tries of a call to a queue that does not answer."""
CLOCK_S: Final = 30.0
"""Between two readings of the database's clock."""

WakeOwners = Callable[[Iterable[str]], Awaitable[None]]
"""Tells the owners of runs that there is something for these."""

_log = logging.getLogger(__name__)


class WorkerHealth(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's state for health reports. `in_keeping` counts results that the database does not have yet,
    `no_handler` items that were given back for want of a handler."""

    worker_id: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    leases: int
    in_keeping: int
    finished: int
    no_handler: dict[str, int]
    load: PoolLoad | None
    queue: QueueHealth


class HeldLease(msgspec.Struct):
    """A lease of this worker. `is_lost`: the queue knows nothing of it any more, and its run wants it all the same."""

    lease: Lease
    assignment: Assignment | None = None
    is_lost: bool = False


class RemoteWorker:
    """See the module's docstring. All methods belong to the loop's thread.

    Attributes:
        observer: is told of results that are durable, and stands around calls of traced handlers; to be set before
            `start`.
    """

    def __init__(
        self,
        store: Store,
        queue: DistributedQueue,
        registry: TaskRegistry,
        *,
        queues: Sequence[str],
        clock: Clock,
        options: WorkerOptions | None = None,
        wake_owners: WakeOwners | None = None,
        worker_id: str = "",
    ) -> None:
        """Args:
        store, queue: open ones; whoever opened them closes them after `stop`.
        queues: whose attempts are taken, those of the first one before all others.
        wake_owners: called after durable results; without it hosts find these with their next sweep.
        worker_id: its name in the journal; a new one unless given.

        Raises InvalidSettingError for queues that no worker can serve.
        """
        check_queues(queues)
        self.observer = Observer()
        self._store, self._queue, self._registry, self._clock = store, queue, registry, clock
        self.queues, self.options = tuple(queues), options or WorkerOptions()
        self.worker_id = worker_id or new_worker_id()
        self._wake_owners = wake_owners
        self._held: dict[str, HeldLease] = {}
        self._reporter = ResultReporter(store, self._reported)
        self._pool: WorkerPool | None = None
        self._has_room = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._beside: set[asyncio.Task[None]] = set()
        self._no_handler: dict[str, int] = {}
        self._finished = 0

    async def start(self) -> None:
        """Begin to take attempts. Nothing happens when it has begun."""
        if self._pool is not None:
            return
        await self._read_clock()
        await self._beat()
        self._pool = WorkerPool(
            self._registry,
            deliver=self._reporter.report,
            clock=self._clock,
            concurrency=self.options.concurrency,
            threads=self.options.concurrency,
            name=self.worker_id,
        )
        self._pool.around_handler = self.observer.around_handler
        loop = asyncio.get_running_loop()
        renew_s = self.options.visibility_ms / 3_000
        self._tasks = [
            loop.create_task(self._lease_items(), name="lease"),
            loop.create_task(self._every(renew_s, self._renew), name="renew"),
            loop.create_task(self._every(CHECK_S, self._check), name="check"),
            loop.create_task(self._every(CLOCK_S, self._read_clock), name="clock"),
            loop.create_task(self._every(WORKER_BEAT_MS / 1_000, self._beat), name="heartbeat"),
        ]

    async def stop(self) -> None:
        """Take nothing new, let attempts finish within the drain time, and give back the others."""
        pool = self._pool
        if pool is None:
            return
        leasing, *others = self._tasks
        leasing.cancel()
        await asyncio.gather(leasing, return_exceptions=True)
        await pool.drain(self.options.drain_ms)
        left = await self._reporter.close(self.options.drain_ms)
        if left:
            _log.error("%d results could not be stored: their attempts are delivered again", left)
        for task in (*others, *self._beside):
            task.cancel()
        await asyncio.gather(*others, *self._beside, return_exceptions=True)
        await self._give_back([held.lease for token, held in self._held.items() if not pool.holds(token)])
        self._held.clear()
        await pool.close()
        self._pool = None
        await self._leave()

    def attempt_in(self, task: asyncio.Task[Any]) -> Attempt | None:
        """Whose handler an asyncio task is calling; None when it does something else. For any thread."""
        return None if self._pool is None else self._pool.attempt_in(task)

    async def health(self) -> WorkerHealth:
        """What a health report says."""
        return WorkerHealth(
            worker_id=self.worker_id,
            queues=self.queues,
            tasks=self._registry.names,
            leases=len(self._held),
            in_keeping=self._reporter.in_keeping,
            finished=self._finished,
            no_handler=dict(self._no_handler),
            load=self._pool.load if self._pool is not None else None,
            queue=await self._queue.health(),
        )

    # --- taking -------------------------------------------------------------------------------------------------------

    async def _lease_items(self) -> None:
        while True:
            room = self.options.concurrency - len(self._held)
            if room < 1:
                self._has_room.clear()
                await self._has_room.wait()
                continue
            try:
                leases = await self._queue.lease(
                    self.queues,
                    max_items=min(room, MAX_ITEMS_PER_CALL),
                    visibility_ms=self.options.visibility_ms,
                    wait_ms=LEASE_WAIT_MS,
                )
            except QueueUnavailableError as error:  # its tiers say for themselves that they are away
                _log.debug("%s", error)
                await asyncio.sleep(UNAVAILABLE_PAUSE_S)
                continue
            for lease in leases:
                self._take(lease)

    def _take(self, lease: Lease) -> None:
        token = lease.item.token
        try:
            work = lease.item.work()
        except QueueItemRefusedError as error:
            _log.error("%s", error)
            return
        if not isinstance(work, TaskWork):
            _log.error("queue %s holds something other than attempts: %s", lease.item.queue, token)
            return
        assignment = work.assignment
        if lease.delivery > 1:
            assignment = msgspec.structs.replace(assignment, is_redelivery=True)
        if token in self._held:  # lost, and delivered to us again
            self._held[token].lease, self._held[token].is_lost = lease, False
            return
        self._held[token] = HeldLease(lease)
        if assignment.task not in self._registry:
            self._beside_the_work(self._return_unhandled(lease, assignment.task))
        elif work.input_ref is not None or assignment.is_redelivery:
            self._beside_the_work(self._prepare(lease, assignment, work))
        else:
            self._begin(lease, assignment)

    def _begin(self, lease: Lease, assignment: Assignment) -> None:
        held = self._held.get(lease.item.token)
        if held is None or held.lease is not lease:
            return
        held.assignment = msgspec.structs.replace(assignment, input=None)
        if self._pool is None or not self._pool.offer(assignment):
            self._let_go(lease.item.token)
            self._beside_the_work(self._give_back([lease]))

    async def _prepare(self, lease: Lease, assignment: Assignment, work: TaskWork) -> None:
        """What is not in the item is in the journal: a large input, and whether somebody has ended the attempt."""
        try:
            if assignment.is_redelivery and await self._has_result(assignment):
                await self._acknowledge({lease.item.token: lease})
                return
            if work.input_ref is not None:
                text = await self._store.payload(assignment.run_id, work.input_ref.hash)
                if text is None:  # its run is gone
                    await self._acknowledge({lease.item.token: lease})
                    return
                assignment = msgspec.structs.replace(assignment, input=decode_value(text))
        except StoreUnavailableError as error:
            _log.debug("%s is given back: %s", lease.item.token, error, extra=attempt_fields(lease.item.token))
            await asyncio.sleep(NO_HANDLER_PAUSE_S)
            self._let_go(lease.item.token)
            await self._give_back([lease])
            return
        self._begin(lease, assignment)

    async def _has_result(self, assignment: Assignment) -> bool:
        rows = await self._store.attempts(assignment.run_id)
        return any(row.node == assignment.node and row.generation == assignment.generation for row in rows)

    async def _return_unhandled(self, lease: Lease, task: str) -> None:
        if task not in self._no_handler:
            _log.warning(
                "no handler %r here, for attempts in queue %s: they are left to others", task, lease.item.queue
            )
        self._no_handler[task] = self._no_handler.get(task, 0) + 1
        await asyncio.sleep(NO_HANDLER_PAUSE_S)
        self._let_go(lease.item.token)
        await self._give_back([lease])

    # --- keeping ------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Renew all leases, lost ones too: a tier that is back knows them again. What can't be renewed is looked up."""
        leases = [held.lease for held in self._held.values()]
        for start in range(0, len(leases), MAX_ITEMS_PER_CALL):
            batch = leases[start : start + MAX_ITEMS_PER_CALL]
            answers = await self._queue.renew(batch, visibility_ms=self.options.visibility_ms)
            for lease, holds in zip(batch, answers, strict=True):
                held = self._held.get(lease.item.token)
                if held is None or held.lease is not lease:
                    continue
                held.is_lost = not holds
                if not holds:
                    await self._lease_lost(held)

    async def _check(self) -> None:
        """Find attempts whose item was withdrawn."""
        by_queue: dict[str, list[Lease]] = {}
        for one in self._held.values():
            if not one.is_lost and one.assignment is not None:
                by_queue.setdefault(one.lease.item.queue, []).append(one.lease)
        for queue, leases in by_queue.items():
            for start in range(0, len(leases), MAX_ITEMS_PER_CALL):
                batch = leases[start : start + MAX_ITEMS_PER_CALL]
                states = await self._queue.held(queue, [lease.item.token for lease in batch])
                for lease in batch:
                    held = self._held.get(lease.item.token)
                    if lease.item.token not in states and held is not None and held.lease is lease:
                        held.is_lost = True
                        await self._look_up(held)

    async def _lease_lost(self, held: HeldLease) -> None:
        """Somebody else has or gets the attempt, or nobody does any more."""
        token, lease = held.lease.item.token, held.lease
        states = await self._queue.held(lease.item.queue, [token])
        if self._held.get(token) is not held or held.lease is not lease:
            return
        if token not in states:
            await self._look_up(held)
            return
        _log.warning("the lease of %s was lost: the attempt is left to others", token, extra=attempt_fields(token))
        self._let_go(token)
        if self._pool is not None:
            self._pool.abandon(token)

    async def _look_up(self, held: HeldLease) -> None:
        """The queue knows nothing of the attempt: cancel it, unless its run still wants it."""
        assignment = held.assignment
        if assignment is None:
            return
        loaded = await self._store.load(assignment.run_id)
        if loaded is not None and is_wanted(loaded_state(loaded), assignment):
            return
        if self._pool is not None:
            self._pool.cancel(assignment.token)

    # --- results ------------------------------------------------------------------------------------------------------

    async def _reported(self, results: Mapping[str, AttemptResult]) -> None:
        """Results are durable: tell the owners of their runs, and let go of the items."""
        held_ones = {token: held for token in results if (held := self._held.get(token)) is not None}
        run_ids = {result.run_id for result in results.values()}
        self._finished += len(results)
        for token, held in held_ones.items():
            if held.assignment is not None:
                self.observer.attempt_reported(held.assignment.task, results[token].finished)
        if self._pool is not None:
            for token in results:
                self._pool.confirm(token)
        if self._wake_owners is not None:
            try:
                await self._wake_owners(run_ids)
            except (QueueUnavailableError, StoreUnavailableError) as error:
                _log.info("hosts find results with their next sweep: %s", error)
        await self._acknowledge({token: held.lease for token, held in held_ones.items()})

    async def _acknowledge(self, leases: Mapping[str, Lease]) -> None:
        for token in leases:
            self._let_go(token)
        try:
            batch = list(leases.values())
            if batch:
                await self._queue.acknowledge(batch)
        except QueueUnavailableError as error:
            _log.warning("%d items are delivered again, and have results by then: %s", len(leases), error)

    async def _give_back(self, leases: Sequence[Lease]) -> None:
        try:
            for start in range(0, len(leases), MAX_ITEMS_PER_CALL):
                await self._queue.release(leases[start : start + MAX_ITEMS_PER_CALL])
        except QueueUnavailableError as error:
            _log.warning("%d leases run out by themselves: %s", len(leases), error)

    def _let_go(self, token: str) -> None:
        self._held.pop(token, None)
        self._has_room.set()

    # --- beside -------------------------------------------------------------------------------------------------------

    async def _read_clock(self) -> None:
        """Limits count by the database's clock."""
        clock = self._clock
        if isinstance(clock, SystemClock):
            sent_at_us = clock.uncorrected_us()
            database_now_us = await self._store.now_us()
            clock.synchronise(database_now_us, sent_at_us, clock.uncorrected_us())

    async def _beat(self) -> None:
        """Say that this worker lives, and what it has: handlers may be registered at any time."""
        await self._store.beat_worker(
            WorkerRecord(worker_id=self.worker_id, queues=self.queues, tasks=self._registry.names)
        )

    async def _leave(self) -> None:
        try:
            await self._store.remove_worker(self.worker_id)
        except StoreUnavailableError as error:
            _log.info("this worker counts as alive for some seconds more: %s", error)

    def _beside_the_work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _every(self, interval_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                await work()
            except (QueueUnavailableError, StoreUnavailableError) as error:
                _log.debug("%s", error)
            except Exception:  # noqa: BLE001 - logged with its traceback, and tried again
                _log.exception("looking after leases failed")


def new_worker_id() -> str:
    """A name that tells a worker's machine and process, and that no other worker has."""
    return f"{socket.gethostname()}:{os.getpid()}:worker-{secrets.token_hex(4)}"


def is_wanted(state: RunState, assignment: Assignment) -> bool:
    """Whether a run still waits for an attempt, by its journal."""
    node = state.nodes.get(assignment.node)
    if state.is_terminal or node is None or node.status != "running" or node.generation != assignment.generation:
        return False
    closing = state.closing
    return closing is None or closing.is_compensating or closing.defers_started
