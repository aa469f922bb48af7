"""What a handler may know of its attempt, and tell about it: the parameter annotated `TaskContext`."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import MutableMapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ductor.actors.messages import Assignment

_log = logging.getLogger("ductor.task")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_making_event = threading.Lock()


class TaskContext:
    """One attempt, as its handler sees it. All of it works in coroutines and in threads alike.

    Attributes:
        deadline_us: when the attempt has to be over, microseconds since the epoch; None without a limit.
        last_heartbeat_s: time of the last sign of life, by the loop's clock. Read by the worker.
        heartbeat_details: what the handler said with it.
        is_cancelled: somebody wants the handler to stop. A coroutine gets a CancelledError besides; an ordinary
            function in a thread has to look here, or call `raise_if_cancelled`.
    """

    __slots__ = (
        "_assignment",
        "_cancellation",
        "_is_beat_under_way",
        "_loop",
        "_loop_thread_id",
        "_waiters",
        "deadline_us",
        "heartbeat_details",
        "is_cancelled",
        "last_heartbeat_s",
    )

    def __init__(self, assignment: Assignment, loop: asyncio.AbstractEventLoop, deadline_us: int | None) -> None:
        """Args: `loop` is the running loop."""
        self._assignment, self._loop, self._loop_thread_id = assignment, loop, threading.get_ident()
        self._is_beat_under_way = False
        self.deadline_us = deadline_us
        self.last_heartbeat_s = 0.0
        self.heartbeat_details: object = None
        self.is_cancelled = False
        self._cancellation: threading.Event | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def run_id(self) -> str:
        """The run."""
        return self._assignment.run_id

    @property
    def tenant(self) -> str:
        """The run's tenant."""
        return self._assignment.tenant

    @property
    def definition(self) -> str:
        """Name of the run's definition."""
        return self._assignment.definition

    @property
    def step(self) -> str:
        """Ref of the step."""
        return self._assignment.node

    @property
    def task(self) -> str:
        """Name of the handler."""
        return self._assignment.task

    @property
    def attempt(self) -> int:
        """Number of the attempt within its round, from 1."""
        return self._assignment.attempt

    @property
    def iteration(self) -> int:
        """Round of a repeated step, from 0."""
        return self._assignment.iteration

    @property
    def idempotency_key(self) -> str:
        """The same whenever this attempt is delivered, different for every other attempt."""
        return self._assignment.token

    @property
    def traceparent(self) -> str:
        """The attempt in the trace of its run, for the header of that name in calls to others: W3C Trace Context.
        Empty where the run is not traced."""
        return self._assignment.traceparent

    @property
    def lease_fence(self) -> int:
        """A number that grows whenever the lease of the step, or else of its run, goes to somebody: what the lease
        guards can refuse whoever comes with a smaller one than it has seen. 0 without a lease."""
        return self._assignment.lease_fence

    @property
    def is_redelivery(self) -> bool:
        """Whether the attempt was dispatched before, and may have begun or even ended there."""
        return self._assignment.is_redelivery

    @property
    def is_replay(self) -> bool:
        """Whether somebody calls the handler again to look at what it does: the run gets no result of it. What the
        handler does to the outside world it does all the same, unless it looks here."""
        return self._assignment.is_replay

    @property
    def deadline(self) -> datetime | None:
        """When the attempt has to be over (UTC)."""
        return None if self.deadline_us is None else _EPOCH + timedelta(microseconds=self.deadline_us)

    @property
    def logger(self) -> "TaskLogger":
        """Logs with the attempt's names as fields of the record."""
        return TaskLogger(_log, self)

    def heartbeat(self, details: object = None) -> None:
        """Give a sign of life: the `heartbeat` timeout starts anew.

        Args:
            details: JSON that says how far the work is; shown with the error if the sign was the last one.
        """
        self.heartbeat_details = details
        if threading.get_ident() == self._loop_thread_id:
            self.last_heartbeat_s = self._loop.time()
        elif not self._is_beat_under_way:
            # The loop's clock belongs to the loop's thread.
            self._is_beat_under_way = True
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody is left to care
                self._loop.call_soon_threadsafe(self._beat)

    def _beat(self) -> None:
        self._is_beat_under_way = False
        self.last_heartbeat_s = self._loop.time()

    def raise_if_cancelled(self) -> None:
        """Raise asyncio.CancelledError if the handler should stop: the way to stop from the depth of a thread."""
        if self.is_cancelled:
            raise asyncio.CancelledError

    async def cancelled(self) -> None:
        """Return once the handler should stop. For coroutines."""
        if self.is_cancelled:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def wait_cancelled(self, timeout_s: float | None = None) -> bool:
        """Block the thread until the handler should stop, or for `timeout_s`; whether it should. Not for coroutines."""
        with _making_event:
            event = self._cancellation
            if event is None:
                event = self._cancellation = threading.Event()
        if self.is_cancelled:  # set after the event became visible to `request_cancellation`, or before it was made
            return True
        return event.wait(timeout_s)

    def request_cancellation(self) -> None:
        """Tell the handler to stop. Called by the worker, on the loop."""
        self.is_cancelled = True
        if self._cancellation is not None:
            self._cancellation.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Adds `run_id`, `tenant`, `definition`, `step`, `task`, `attempt` and `token` to every record, and of a traced run
    `trace_id` and `span_id`."""

    def __init__(self, logger: logging.Logger, context: TaskContext) -> None:
        super().__init__(
            logger,
            {
                "run_id": context.run_id,
                "tenant": context.tenant,
                "definition": context.definition,
                "step": context.step,
                "task": context.task,
                "attempt": context.attempt,
                "token": context.idempotency_key,
                **_trace_fields(context.traceparent),
            },
        )

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Join the attempt's fields with those of the call, which go first."""
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


def _trace_fields(traceparent: str) -> dict[str, str]:
    if not traceparent:
        return {}
    _, trace_id, span_id, _ = traceparent.split("-")
    return {"trace_id": trace_id, "span_id": span_id}
