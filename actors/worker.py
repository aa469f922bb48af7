"""The worker pool: takes assignments after their commit, runs their handlers, keeps results until they are confirmed.

A token's life here: *held* (waiting or running) → *finished* (its result is delivered, and kept) → forgotten, on
`confirm`.
- A token that is held is not taken a second time; one that is finished has its result delivered again.
- A result is never dropped: it leaves by `confirm`, once the commit that carries it was acknowledged. What `abandon`
  names has no result any more; nor has what `drain` interrupts: the next owner of its run dispatches it again.
- A result that comes after the attempt was settled otherwise (timed out, abandoned) is dropped. Until the handler ends
  it occupies its worker, and is counted as a straggler.

All methods belong to the loop's thread.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal

import msgspec

from ductor.actors.attempt import TIMER_TOLERANCE_S, Attempt, has_limits, limits_at_arrival
from ductor.actors.context import TaskContext
from ductor.actors.execution import CANCELLED, Crew, Failed, Outcome, Succeeded
from ductor.actors.failures import timeout_info
from ductor.actors.handler_threads import HandlerThreads
from ductor.actors.log_fields import attempt_fields
from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.observing import AroundHandler
from ductor.actors.tasks import Task, TaskRegistry
from ductor.journal.clock import Clock
from ductor.journal.events import AttemptFinished, ErrorInfo, TimeoutKind

MAX_WAITING_FOR_HANDLER = 10_000
"""Assignments kept for handlers that nobody has registered yet."""
PLACING_PAUSE_S = 1.0
"""Between two tries to place what a late handler has waiting, when the queue is full."""
INTERRUPTION_REPORT_S = 1.0
"""An attempt that ended with its worker's task is reported as failed if the loop still lives this much later."""

_log = logging.getLogger(__name__)


class PoolLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool is doing.

    Attributes:
        running: attempts whose handler runs and whose result matters.
        waiting: attempts that wait for a worker.
        waiting_for_handler: attempts whose handler is not registered.
        unconfirmed: results whose commit was not acknowledged yet.
        stragglers: handlers still running after their attempt was settled; `stuck_threads` is how many of them hold a
            thread, which nothing can take back.
        workers: most coroutine handlers at a time, and `busy_workers` those in use.
        threads: most ordinary handlers at a time, and `busy_threads` those in use.
    """

    running: int
    waiting: int
    waiting_for_handler: int
    unconfirmed: int
    stragglers: int
    stuck_threads: int
    workers: int
    busy_workers: int
    threads: int
    busy_threads: int


class WorkerPool:
    """See the module's docstring."""

    def __init__(
        self,
        registry: TaskRegistry,
        *,
        deliver: Callable[[AttemptResult], None],
        clock: Clock,
        name: str,
        concurrency: int = 256,
        threads: int = 16,
        grace_ms: int = 5_000,
    ) -> None:
        """Make a pool in the running loop.

        Args:
            registry: finds handlers; may grow later.
            deliver: takes results, on the loop. If it raises, the result stays among the unconfirmed.
            clock: times of the results.
            name: the worker's name in the journal.
            concurrency: coroutine handlers at a time.
            threads: ordinary handlers at a time.
            grace_ms: how long `drain` and `close` wait for handlers that were told to stop.
        """
        self._registry, self._deliver, self._clock, self._name = registry, deliver, clock, name
        self._grace_ms = grace_ms
        self._loop = asyncio.get_running_loop()
        self._handler_threads = HandlerThreads(threads, f"{name}-thread")
        self._coroutine_crew = Crew(self, concurrency, f"{name}-worker")
        self._thread_crew = Crew(self, threads, f"{name}-thread-worker", self._handler_threads)
        self._held: dict[str, Attempt] = {}
        self._finished: dict[str, AttemptResult] = {}
        self._missing: dict[str, dict[str, Attempt]] = {}
        self._missing_count = 0
        self._running_count = 0
        self._stragglers: set[Attempt] = set()
        self._quiet: asyncio.Future[None] | None = None  # set while draining
        self.around_handler: AroundHandler | None = None
        self._stop_listening = registry.on_register(self._serve_missing)

    # --- what the owner of runs calls ---------------------------------------------------------------------------------

    def offer(self, assignment: Assignment) -> bool:
        """Take an attempt, after the commit that dispatched it.

        A token that is held already is not taken again; one that is finished has its result delivered again. False when
        the pool takes nothing, because it is full or drains: the attempt has to be offered again, here or elsewhere.
        """
        token = assignment.token
        if token in self._held:
            return True
        if token in self._finished:
            self._loop.call_soon(self._deliver_again, token)
            return True
        if self._quiet is not None:
            return False
        limits = None
        if has_limits(assignment):
            limits = limits_at_arrival(assignment, self._clock.now_us(), self._loop.time())
        task = self._registry.get(assignment.task)
        attempt = Attempt(assignment, task, limits)
        if task is None or limits is not None:
            is_placed = self._place(attempt)
        else:
            crew = self._coroutine_crew if task.is_async else self._thread_crew
            is_placed = crew.offer(attempt)
        if not is_placed:
            return False
        self._held[token] = attempt
        return True

    def confirm(self, token: str) -> None:
        """The commit that carries the result was acknowledged: forget it."""
        self._finished.pop(token, None)

    def unconfirmed(self) -> list[AttemptResult]:
        """Results whose commit was not acknowledged yet, oldest first."""
        return list(self._finished.values())

    def cancel(self, token: str) -> None:
        """Ask an attempt to stop. One that waits is cancelled at once; a running handler is told, and its end counts.

        An unknown or finished token is ignored.
        """
        attempt = self._held.get(token)
        if attempt is None or attempt.is_stop_requested:
            return
        if attempt.has_started:
            attempt.request_stop()
        else:
            self._withdraw(attempt)
            self._settle(attempt, CANCELLED)

    def abandon(self, token: str) -> None:
        """Nobody cares for the attempt any more: tell its handler to stop, and drop whatever its result is or was."""
        self._finished.pop(token, None)
        attempt = self._held.get(token)
        if attempt is not None:
            self._release(attempt)

    def holds(self, token: str) -> bool:
        """Whether the token waits, runs or is finished here."""
        return token in self._held or token in self._finished

    def held_tokens(self) -> Iterator[str]:
        """The tokens for which `holds` is true."""
        return chain(self._held, self._finished)

    def attempt_in(self, task: asyncio.Task[Any]) -> Attempt | None:
        """Whose handler an asyncio task is calling; None when it does something else. For any thread."""
        return self._coroutine_crew.attempt_in(task) or self._thread_crew.attempt_in(task)

    def waiting_for_handler(self) -> Mapping[str, int]:
        """How many attempts wait for each handler that is not registered."""
        return {name: len(attempts) for name, attempts in self._missing.items()}

    @property
    def in_flight(self) -> int:
        """How many attempts wait or run."""
        return len(self._held)

    def task_names(self) -> tuple[str, ...]:
        """Names of the handlers that can run here, sorted."""
        return self._registry.names

    @property
    def load(self) -> PoolLoad:
        """What the pool is doing."""
        coroutines, threads = self._coroutine_crew, self._thread_crew
        return PoolLoad(
            running=self._running_count,
            waiting=len(coroutines.queue) + len(threads.queue),
            waiting_for_handler=self._missing_count,
            unconfirmed=len(self._finished),
            stragglers=len(self._stragglers),
            stuck_threads=sum(1 for attempt in self._stragglers if not _is_async(attempt)),
            workers=coroutines.capacity,
            busy_workers=coroutines.busy,
            threads=threads.capacity,
            busy_threads=threads.busy,
        )

    async def drain(self, timeout_ms: int) -> int:
        """Take nothing new, forget what waits, and let what runs end.

        After `timeout_ms` handlers that still run are told to stop and get `grace_ms`. One that then stops, or does not
        end at all, has no result; one that returns has. How many handlers were told to stop.
        """
        if self._quiet is None:
            self._quiet = self._loop.create_future()
        for attempt in tuple(self._held.values()):
            if not attempt.has_started or attempt.has_ended:
                self._release(attempt)
        if await self._is_quiet_within(timeout_ms):
            return 0
        late = tuple(self._held.values())
        for attempt in late:
            attempt.is_interrupted = True
            attempt.request_stop()
        if not await self._is_quiet_within(self._grace_ms):
            for attempt in tuple(self._held.values()):
                self._release(attempt)
        return len(late)

    async def close(self) -> None:
        """Drain without waiting, and end the workers. Results that are not confirmed can still be read."""
        self._stop_listening()
        await self.drain(0)
        await self._coroutine_crew.close(self._grace_ms)
        await self._thread_crew.close(self._grace_ms)
        self._handler_threads.shutdown(wait=False)

    # --- what workers call --------------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> bool:
        """A worker is about to call the handler: not if the attempt is settled, or came too late."""
        if attempt.is_settled:
            return False
        if attempt.limits is not None and self._has_expired(attempt):
            return False
        task = attempt.task
        assert task is not None
        attempt.has_started, attempt.started_at_us = True, self._clock.now_us()
        self._running_count += 1
        if task.binding.wants_context:
            attempt.context = TaskContext(attempt.assignment, self._loop, attempt.deadline_us)
        if attempt.limits is not None:
            attempt.begin_limits(self._loop.time())
            self._arm(attempt)
        return True

    def finish(self, attempt: Attempt, outcome: Outcome) -> None:
        """The handler has ended: its outcome counts unless the attempt was settled before."""
        attempt.has_ended = True
        if attempt.is_settled:
            self._stragglers.discard(attempt)
        elif attempt.is_interrupted and not isinstance(outcome, Succeeded):
            self._release(attempt)
        else:
            self._settle(attempt, outcome)

    def interrupt(self, attempt: Attempt, error_type: str) -> None:
        """The handler ended together with its worker. See `INTERRUPTION_REPORT_S`."""
        attempt.has_ended = True
        self._stragglers.discard(attempt)
        if attempt.is_settled or self._loop.is_closed():
            return
        if self._quiet is not None:
            self._release(attempt)
            return
        error = ErrorInfo(type=error_type, message="the worker's task ended before the handler did")
        self._loop.call_later(INTERRUPTION_REPORT_S, self._report_interrupted, attempt, Failed(error))

    def _report_interrupted(self, attempt: Attempt, outcome: Outcome) -> None:
        if not attempt.is_settled:
            self._settle(attempt, outcome)

    # --- where attempts wait ------------------------------------------------------------------------------------------

    def _crew(self, task: Task[..., Any]) -> Crew:
        return self._coroutine_crew if task.is_async else self._thread_crew

    def _place(self, attempt: Attempt) -> bool:
        """Give an attempt to its crew, or keep it until its handler is there. False when there is no room."""
        if attempt.task is not None:
            crew = self._crew(attempt.task)
            if crew.is_free:
                return crew.offer(attempt)  # it begins in the next loop step, which looks at its limits itself
            if not crew.offer(attempt):
                return False
        elif self._missing_count < MAX_WAITING_FOR_HANDLER:
            self._missing.setdefault(attempt.assignment.task, {})[attempt.token] = attempt
            self._missing_count += 1
        else:
            return False
        if attempt.limits is not None:
            self._arm(attempt)
        return True

    def _withdraw(self, attempt: Attempt) -> None:
        """Take a waiting attempt out of where it waits."""
        name = attempt.assignment.task
        missing = self._missing.get(name)
        if missing is not None and missing.pop(attempt.token, None) is not None:
            self._missing_count -= 1
            if not missing:
                del self._missing[name]
        elif attempt.task is not None:
            self._crew(attempt.task).queue.withdraw(attempt)

    def _serve_missing(self, task: Task[..., Any]) -> None:
        """A handler was registered: place what waits for it, as far as there is room, and the rest later."""
        for token, attempt in tuple(self._missing.get(task.name, {}).items()):
            attempt.task = task
            if not self._crew(task).offer(attempt):
                self._loop.call_later(PLACING_PAUSE_S, self._serve_missing, task)
                return
            del self._missing[task.name][token]
            self._missing_count -= 1
        self._missing.pop(task.name, None)

    # --- limits -------------------------------------------------------------------------------------------------------

    def _arm(self, attempt: Attempt) -> None:
        attempt.cancel_timer()
        limit = attempt.next_limit()
        if limit is not None:
            attempt.timer = self._loop.call_at(limit[0], self._on_timer, attempt)

    def _on_timer(self, attempt: Attempt) -> None:
        attempt.timer = None
        if not self._has_expired(attempt):  # the handler gave a sign of life meanwhile
            self._arm(attempt)

    def _has_expired(self, attempt: Attempt) -> bool:
        """Whether the first limit of an attempt is over; then it has failed, and its handler is told to stop."""
        limit = attempt.next_limit()
        if limit is None or limit[0] - self._loop.time() > TIMER_TOLERANCE_S:
            return False
        kind: TimeoutKind = limit[1]
        last_heartbeat = None if attempt.context is None else attempt.context.heartbeat_details
        self._stop_caring(attempt)
        self._settle(attempt, Failed(timeout_info(kind, attempt.limit_ms(kind), last_heartbeat)))
        return True

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _stop_caring(self, attempt: Attempt) -> None:
        """Whatever the handler does from now on does not matter."""
        if attempt.has_ended:
            return
        if attempt.has_started:
            self._stragglers.add(attempt)
            attempt.request_stop()
        else:
            self._withdraw(attempt)

    def _release(self, attempt: Attempt) -> None:
        """Settle an attempt without a result."""
        self._stop_caring(attempt)
        self._leave_held(attempt)

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        """Settle an attempt, keep its result and deliver it."""
        self._leave_held(attempt)
        finished_at_us = max(self._clock.now_us(), attempt.started_at_us)
        result = _result(attempt, outcome, self._name, finished_at_us)
        self._finished[attempt.token] = result
        self._hand_out(result)

    def _leave_held(self, attempt: Attempt) -> None:
        attempt.is_settled = True
        if attempt.timer is not None:
            attempt.cancel_timer()
        if attempt.has_started:
            self._running_count -= 1
        del self._held[attempt.token]
        if self._quiet is not None and not self._held and not self._quiet.done():
            self._quiet.set_result(None)

    def _deliver_again(self, token: str) -> None:
        result = self._finished.get(token)
        if result is not None:
            self._hand_out(result)

    def _hand_out(self, result: AttemptResult) -> None:
        try:
            self._deliver(result)
        except Exception:  # noqa: BLE001 - one result must not end the worker; it stays among the unconfirmed
            _log.exception("the result of %s could not be delivered", result.token, extra=attempt_fields(result.token))

    async def _is_quiet_within(self, timeout_ms: int) -> bool:
        assert self._quiet is not None
        if self._held:
            await asyncio.wait((self._quiet,), timeout=timeout_ms / 1_000)
        return not self._held


def _is_async(attempt: Attempt) -> bool:
    return attempt.task is not None and attempt.task.is_async


def _result(attempt: Attempt, outcome: Outcome, worker: str, finished_at_us: int) -> AttemptResult:
    assignment = attempt.assignment
    output = output_ref = payload = error = value = None
    name: Literal["succeeded", "failed", "cancelled"] = "cancelled"
    if type(outcome) is Succeeded:
        name, stored = "succeeded", outcome.result
        output, output_ref, payload = stored.inline, stored.ref, stored.payload
        if output_ref is not None:
            value = stored.value
    elif type(outcome) is Failed:
        name, error = "failed", outcome.error
    finished = AttemptFinished(
        node=assignment.node,
        generation=assignment.generation,
        outcome=name,
        output=output,
        output_ref=output_ref,
        error=error,
        worker=worker,
        started_at_us=attempt.started_at_us,
        finished_at_us=finished_at_us,
    )
    return AttemptResult(assignment.run_id, attempt.token, finished, payload, value)
