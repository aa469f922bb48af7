"""Attempts for workers in other processes: a host hands them to the distributed queue after their commit.

```
              ┌────────────── queue disturbed: the run is woken, and offers again ─────────────┐
  offer ──▶ sending ──enqueue──▶ sent ──── the worker's row is in the journal ──▶ forgotten ◀──┘
                                  │  └──── cancelled while it waits: withdrawn, has a result ──▶ forgotten by `confirm`
                                  └─────── `start` or `total` is over: withdrawn, has failed ──▶ forgotten by `confirm`
```
An attempt goes to the queue if its handler is not registered here, or if its queue is one that workers serve. All
others run here and never touch the queue, but for one case: an attempt of an earlier life, which a worker may have by
now, is looked for in the queue first (*returning*).

Invariants:
- What is not in a queue is in a journal: whatever is forgotten here or lost there is offered again by whoever carries
  on the run, under the same token.
- A token is sent once, until the queue may have lost it.

Failure cases:
- The queue can't be asked: the call is repeated until it can. What returns runs here meanwhile; it may be done twice.
- The queue is full: the run is looked at again after a pause, which offers the attempt again.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol

import msgspec

from ductor.actors.attempt import has_limits, limits_at_arrival
from ductor.actors.failures import error_info, timeout_info
from ductor.actors.log_fields import attempt_fields
from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.errors import QueueItemRefusedError, QueueUnavailableError
from ductor.actors.queue.items import QueueItem, TokenState, task_item
from ductor.actors.tasks import TaskRegistry
from ductor.journal.clock import Clock
from ductor.journal.codec import stored_value
from ductor.journal.events import AttemptFinished, ErrorInfo, TimeoutKind
from ductor.journal.worker_store import WorkerRecord

MAX_SENT: Final = 100_000
"""Attempts in other processes that a host remembers. Of the oldest it forgets the limits, and that they are there."""
RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 2.0
"""Pauses while the queue can't be asked: the first, then twice as long each time."""
LEASED_RECHECK_S: Final = 30.0
"""An attempt of an earlier life that a worker has is looked at again after this."""
TOTAL_SLACK_S: Final = 1.0
"""A worker that keeps the `total` limit itself knows more about the attempt: it has this much time to say so."""

_log = logging.getLogger(__name__)


class RemoteAttempt(msgspec.Struct):
    """An attempt that is, or may be, in another process. The input is left out of its assignment."""

    assignment: Assignment
    is_returning: bool = False
    is_cancelled: bool = False
    timer: asyncio.TimerHandle | None = None


class RunsOwner(Protocol):
    """Who carries out runs: the engine."""

    registry: TaskRegistry
    clock: Clock

    def offer_here(self, assignment: Assignment) -> None:
        """Have an attempt run in this process, after all."""
        ...

    def cancel(self, token: str) -> None:
        """Tell a worker to stop an attempt."""
        ...

    def deliver(self, result: AttemptResult) -> None:
        """Take the result of an attempt that no worker took."""
        ...

    def wake(self, run_id: str) -> None:
        """Look at a run, and offer its attempts again."""
        ...

    def wake_later(self, run_id: str) -> None:
        """The same after a pause."""
        ...

    def may_offer_again(self, token: str) -> None:
        """No other host has the attempt: it may be offered again, whoever owns the run."""
        ...


class RemoteTasks:
    """See the module's docstring. All methods belong to the loop's thread.

    Attributes:
        has_sent: set whenever attempts have gone to the queue; for who looks for their results, and clears it.
    """

    def __init__(
        self,
        queue: DistributedQueue,
        owner: RunsOwner,
        remote_queues: Collection[str],
        *,
        name: str,
    ) -> None:
        """Make it in the running loop.

        Args:
            owner: carries out the runs.
            remote_queues: queues whose attempts never run here.
            name: the host's name in the journal.
        """
        self._queue, self._owner, self._remote_queues, self._name = queue, owner, frozenset(remote_queues), name
        self._registry, self._clock = owner.registry, owner.clock
        self._loop = asyncio.get_running_loop()
        self._known: OrderedDict[str, RemoteAttempt] = OrderedDict()
        self._to_send: dict[str, QueueItem] = {}
        self._to_look_for: dict[str, Assignment] = {}
        self._to_withdraw: dict[str, ErrorInfo | None] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._rechecks: dict[str, asyncio.TimerHandle] = {}
        self._is_closed = False
        self.has_sent = asyncio.Event()
        self._stop_listening = self._registry.on_register(lambda task: self._handler_arrived(task.name))

    # --- what the engine calls ----------------------------------------------------------------------------------------

    def offer(self, assignment: Assignment) -> bool:
        """Take an attempt, if it is not one to run here at once."""
        if self._is_for_others(assignment):
            self._send(assignment)
            return True
        if not assignment.is_redelivery:
            return False
        self._look_for(assignment)
        return True

    def keeps(self, assignment: Assignment) -> bool:
        """Whether an attempt is in hand here, or would go to the queue in any case."""
        return assignment.token in self._known or self._is_for_others(assignment)

    def _is_for_others(self, assignment: Assignment) -> bool:
        return assignment.task not in self._registry or assignment.queue in self._remote_queues

    def cancel(self, token: str) -> None:
        """Nobody wants the attempt any more. One that waits is taken back; a worker that has it finds out by itself."""
        known = self._known.get(token)
        if known is None or known.is_cancelled:
            return
        known.is_cancelled = True
        if not known.is_returning:
            self._withdraw(token, None)

    def forget(self, token: str) -> None:
        """What became of the attempt is in the journal."""
        known = self._known.pop(token, None)
        if known is not None and known.timer is not None:
            known.timer.cancel()

    def send_again(self) -> None:
        """The queue may have lost what it had: have all runs concerned offer their attempts again."""
        runs = dict.fromkeys(known.assignment.run_id for known in self._known.values() if not known.is_returning)
        for token, known in tuple(self._known.items()):
            if not known.is_returning and token not in self._to_send:
                self.forget(token)
                self._owner.may_offer_again(token)
        for run_id in runs:
            self._owner.wake(run_id)

    def awaited_runs(self) -> set[str]:
        """Runs of which an attempt is in another process, or on its way there."""
        return {known.assignment.run_id for known in self._known.values()} | set(self._rechecks)

    def waiting_for_handler(self, workers: Sequence[WorkerRecord] = ()) -> Mapping[str, int]:
        """How many attempts are in other processes, or wait for one, by handlers that are not registered here; without
        those that one of these workers could take."""
        wanted = Counter(
            (known.assignment.queue, known.assignment.task)
            for known in self._known.values()
            if known.assignment.task not in self._registry
        )
        waiting: Counter[str] = Counter()
        for (queue, task), count in wanted.items():
            if not any(queue in worker.queues and task in worker.tasks for worker in workers):
                waiting[task] += count
        return waiting

    @property
    def in_flight(self) -> int:
        """How many attempts are in other processes, or wait for one."""
        return len(self._known)

    async def close(self, timeout_ms: int) -> bool:
        """Bring what was offered to the queue. Whether all of it got there."""
        self._stop_listening()
        flushing = self._flushing
        if flushing is not None:
            await asyncio.wait((flushing,), timeout=timeout_ms / 1_000)
        self._is_closed = True
        tasks = [task for task in (*self._checks, self._flushing) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for handle in self._rechecks.values():
            handle.cancel()
        is_clean = not self._to_send and not self._to_look_for
        for token in tuple(self._known):
            self.forget(token)
        return is_clean

    # --- what is to be done -------------------------------------------------------------------------------------------

    def _send(self, assignment: Assignment) -> None:
        token = assignment.token
        if token in self._known and not self._known[token].is_returning:
            return
        try:
            stored = stored_value(assignment.input, "input")
            self._to_send[token] = task_item(assignment, stored.ref)
        except QueueItemRefusedError as error:
            _log.error("%s", error)
            self._owner.deliver(_result(assignment, self._name, self._clock.now_us(), error_info(error), is_final=True))
            return
        self._to_look_for.pop(token, None)
        self._remember(assignment, is_returning=False)
        self._flush()

    def _look_for(self, assignment: Assignment) -> None:
        token = assignment.token
        if token not in self._to_look_for:
            self._to_send.pop(token, None)
            self._to_look_for[token] = assignment
            self._remember(assignment, is_returning=True)
            self._flush()

    def _withdraw(self, token: str, error: ErrorInfo | None) -> None:
        """Take an attempt back; without an error it counts as cancelled if no worker had it."""
        if token not in self._to_withdraw or error is not None:
            self._to_withdraw[token] = error
            self._flush()

    def _handler_arrived(self, task: str) -> None:
        """What waits for somebody who has the handler need not wait any more."""
        found = [known.assignment for known in self._known.values() if known.assignment.task == task]
        here = [assignment for assignment in found if assignment.queue not in self._remote_queues]
        for assignment in here:
            self._owner.may_offer_again(assignment.token)
        for run_id in dict.fromkeys(assignment.run_id for assignment in here):
            self._owner.wake(run_id)

    def _remember(self, assignment: Assignment, *, is_returning: bool) -> None:
        self.forget(assignment.token)
        bare = msgspec.structs.replace(assignment, input=None)
        known = self._known[assignment.token] = RemoteAttempt(bare, is_returning)
        if not is_returning:
            self._arm(known, *_waiting_limit(bare, self._clock.now_us(), self._loop.time()))
        if len(self._known) > MAX_SENT:
            self.forget(next(iter(self._known)))

    # --- limits -------------------------------------------------------------------------------------------------------

    def _arm(self, known: RemoteAttempt, at_s: float | None, kind: TimeoutKind) -> None:
        if at_s is not None:
            known.timer = self._loop.call_at(at_s, self._on_timer, known, kind)

    def _on_timer(self, known: RemoteAttempt, kind: TimeoutKind) -> None:
        known.timer = None
        if kind == "total":
            self._time_out(known, kind)
            return
        check = self._loop.create_task(self._check_start(known))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _check_start(self, known: RemoteAttempt) -> None:
        """The attempt should have been started by now. A queue that does not answer is told to give it back later."""
        assignment = known.assignment
        try:
            state = (await self._queue.held(assignment.queue, [assignment.token])).get(assignment.token)
        except QueueUnavailableError:
            state = "queued"
        if self._known.get(assignment.token) is not known:
            return
        if state in ("queued", "dead"):
            self._time_out(known, "start")
        elif assignment.total_deadline_us is not None:
            left_s = (assignment.total_deadline_us - self._clock.now_us()) / 1e6
            self._arm(known, self._loop.time() + left_s + TOTAL_SLACK_S, "total")

    def _time_out(self, known: RemoteAttempt, kind: TimeoutKind) -> None:
        timeouts = known.assignment.timeouts
        limit_ms = timeouts.start_ms if kind == "start" else timeouts.total_ms
        self._withdraw(known.assignment.token, timeout_info(kind, limit_ms, None))

    # --- calls --------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._flushing is None and not self._is_closed:
            self._flushing = self._loop.create_task(self._flush_all())
            self._flushing.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushing = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("handing attempts to the queue failed, and goes on", exc_info=task.exception())
            self._loop.call_later(RETRY_MAX_S, self._flush)
        elif self._to_look_for or self._to_send or self._to_withdraw:
            self._flush()  # it came when the last batch was through, and this callback was yet to come

    async def _flush_all(self) -> None:
        """Make the calls that are due, in batches, until none is. In this order what is sent can be withdrawn."""
        pause_s = RETRY_FIRST_S
        while self._to_look_for or self._to_send or self._to_withdraw:
            try:
                await self._find_batch()
                await self._send_batch()
                await self._withdraw_batch()
                pause_s = RETRY_FIRST_S
            except QueueUnavailableError as error:
                _log.debug("%s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_MAX_S)

    async def _send_batch(self) -> None:
        batch = list(islice(self._to_send.values(), MAX_ITEMS_PER_CALL))
        if not batch:
            return
        outcomes = await self._queue.enqueue(batch)
        self.has_sent.set()
        for item, outcome in zip(batch, outcomes, strict=True):
            if self._to_send.get(item.token) is item:
                del self._to_send[item.token]
            if outcome == "refused" and (known := self._known.get(item.token)) is not None:
                _log.warning("queue %s is full: %s waits", item.queue, item.token, extra=attempt_fields(item.token))
                self.forget(item.token)
                self._owner.may_offer_again(item.token)
                self._owner.wake_later(known.assignment.run_id)

    async def _withdraw_batch(self) -> None:
        for queue, tokens in self._by_queue(self._to_withdraw).items():
            stood = await self._queue.withdraw(queue, tokens)
            for token in tokens:
                error, known = self._to_withdraw.pop(token), self._known.get(token)
                # who is cancelled while a worker has it reports for himself; a limit counts in any case
                if known is not None and (error is not None or stood.get(token) in ("queued", "dead")):
                    self._settle(known.assignment, error)

    async def _find_batch(self) -> None:
        """Look for attempts of an earlier life; those that no worker has run here."""
        for queue, tokens in self._by_queue(self._to_look_for).items():
            held: dict[str, TokenState] = {}
            try:
                held.update(await self._queue.held(queue, tokens))
                waiting = [token for token in tokens if held.get(token) in ("queued", "dead")]
                if waiting:
                    held.update(await self._queue.withdraw(queue, waiting))
            except QueueUnavailableError as error:
                _log.warning("attempts of an earlier life may be carried out twice: %s", error)
            for token in tokens:
                assignment, known = self._to_look_for.pop(token), self._known.get(token)
                if known is None or not known.is_returning:
                    continue
                self.forget(token)
                if held.get(token) == "leased":
                    self._owner.may_offer_again(token)
                    self._recheck(assignment.run_id)
                else:
                    self._owner.offer_here(assignment)
                    if known.is_cancelled:
                        self._owner.cancel(token)

    def _recheck(self, run_id: str) -> None:
        now_s = self._loop.time()
        self._rechecks = {run: handle for run, handle in self._rechecks.items() if handle.when() > now_s}
        if run_id not in self._rechecks:
            self._rechecks[run_id] = self._loop.call_later(LEASED_RECHECK_S, self._owner.wake, run_id)

    def _by_queue(self, tokens: Iterable[str]) -> dict[str, list[str]]:
        """The first tokens, as many as one call takes, by queue; those that nobody remembers are left out."""
        found: dict[str, list[str]] = {}
        for token in list(islice(tokens, MAX_ITEMS_PER_CALL)):
            known = self._known.get(token)
            if known is None:
                self._to_withdraw.pop(token, None)
                self._to_look_for.pop(token, None)
            else:
                found.setdefault(known.assignment.queue, []).append(token)
        return found

    def _settle(self, assignment: Assignment, error: ErrorInfo | None) -> None:
        """The attempt has its result here. It is forgotten when that is in the journal."""
        self._owner.deliver(_result(assignment, self._name, self._clock.now_us(), error))


def _waiting_limit(assignment: Assignment, now_us: int, loop_now_s: float) -> tuple[float | None, TimeoutKind]:
    """When an attempt that nobody takes has to be given up, by the loop's clock, and by which limit."""
    if not has_limits(assignment):
        return None, "start"
    limit = limits_at_arrival(assignment, now_us, loop_now_s).waiting()
    if limit is None:
        return None, "start"
    at_s, kind = limit
    return (at_s + TOTAL_SLACK_S, kind) if kind == "total" else limit


def _result(
    assignment: Assignment, worker: str, now_us: int, error: ErrorInfo | None, *, is_final: bool = False
) -> AttemptResult:
    """The result of an attempt that no worker has begun: failed, or without an error cancelled."""
    if error is not None and is_final:
        error = msgspec.structs.replace(error, retryable=False)
    finished = AttemptFinished(
        node=assignment.node,
        generation=assignment.generation,
        outcome="cancelled" if error is None else "failed",
        error=error,
        worker=worker,
        started_at_us=0,
        finished_at_us=now_us,
    )
    return AttemptResult(assignment.run_id, assignment.token, finished)
