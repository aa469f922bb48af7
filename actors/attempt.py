"""One attempt in this process: what it is, how far it got, and when it has to be over.

States: *waiting* (for a worker, or for its handler to be registered) → *running* → *settled*. Whoever settles it first
decides its result: the handler's end, a limit, a cancellation before the start, or `abandon`. A handler that still runs
once its attempt is settled is a *straggler*: what it returns is dropped.
"""

import asyncio
from typing import Any

import msgspec

from ductor.actors.context import TaskContext
from ductor.actors.messages import Assignment
from ductor.actors.tasks import Task
from ductor.journal.events import TimeoutKind

TIMER_TOLERANCE_S = 0.001
"""Loops round their timers to this much, and may fire that early."""


class Limits(msgspec.Struct):
    """When an attempt has to have done what. Times are seconds by the loop's clock; None: no limit.

    Attributes:
        start_at_s: a worker has to have started it.
        attempt_at_s: it has to be over, for itself.
        total_at_s: it has to be over, because all attempts of the round together have to.
        heartbeat_s: the longest pause between two signs of life.
    """

    start_at_s: float | None = None
    attempt_at_s: float | None = None
    total_at_s: float | None = None
    heartbeat_s: float | None = None

    def waiting(self) -> tuple[float, TimeoutKind] | None:
        """The first limit to come while the attempt waits, and its kind."""
        return _earliest(("total", self.total_at_s), ("start", self.start_at_s))

    def running(self, last_sign_s: float) -> tuple[float, TimeoutKind] | None:
        """The first limit to come while it runs, if the handler gives no sign after `last_sign_s`."""
        silent_at_s = None if self.heartbeat_s is None else last_sign_s + self.heartbeat_s
        return _earliest(("total", self.total_at_s), ("attempt", self.attempt_at_s), ("heartbeat", silent_at_s))


def _earliest(*limits: tuple[TimeoutKind, float | None]) -> tuple[float, TimeoutKind] | None:
    """Of limits that come at the same time the first one named counts."""
    first: tuple[float, TimeoutKind] | None = None
    for kind, at_s in limits:
        if at_s is not None and (first is None or at_s < first[0]):
            first = at_s, kind
    return first


def has_limits(assignment: Assignment) -> bool:
    """Whether any of the four timeouts is set."""
    timeouts = assignment.timeouts
    return not (
        timeouts.attempt_ms is None
        and timeouts.start_ms is None
        and timeouts.heartbeat_ms is None
        and assignment.total_deadline_us is None
    )


def limits_at_arrival(assignment: Assignment, now_us: int, loop_now_s: float) -> Limits:
    """The limits that count while the attempt waits.

    The `start` limit counts from the dispatch, but from now for an attempt that was dispatched in an earlier life.
    """
    timeouts, total_us = assignment.timeouts, assignment.total_deadline_us
    limits = Limits()
    if total_us is not None:
        limits.total_at_s = loop_now_s + (total_us - now_us) / 1_000_000
    if timeouts.start_ms is not None:
        since_us = now_us if assignment.is_redelivery else assignment.dispatched_at_us
        limits.start_at_s = loop_now_s + (since_us - now_us) / 1_000_000 + timeouts.start_ms / 1_000
    return limits


class Attempt:
    """An assignment that this process holds.

    Attributes:
        task: its handler; None until one is registered.
        context: what the handler sees of the attempt; None for one that does not look.
        limits: when it has to have done what; None without limits.
        timer: fires at the first of its limits.
        started_at_us: when a worker started it, microseconds since the epoch; 0 before.
        started_at_s: the same by the loop's clock, where there are limits.
        is_settled: its result is decided.
        is_stop_requested: its handler was told to stop.
        is_interrupted: the host can't wait for it any more: that its handler stopped is no result.
        has_started: a worker has called its handler.
        has_ended: its handler was called and runs no more.
        running_in: the asyncio task to cancel when the handler should stop; None while nothing can be cancelled.
    """

    context: TaskContext | None = None
    timer: asyncio.TimerHandle | None = None
    started_at_us = 0
    started_at_s = 0.0
    is_settled = is_stop_requested = is_interrupted = has_started = has_ended = False
    running_in: asyncio.Task[Any] | None = None

    def __init__(self, assignment: Assignment, task: Task[..., Any] | None, limits: Limits | None) -> None:
        self.assignment, self.task, self.limits = assignment, task, limits
        self.token, self.tenant, self.priority = assignment.token, assignment.tenant, assignment.priority

    def next_limit(self) -> tuple[float, TimeoutKind] | None:
        """The first limit to come, by the loop's clock, and its kind."""
        if self.limits is None:
            return None
        if not self.has_started:
            return self.limits.waiting()
        last_sign_s = self.started_at_s if self.context is None else self.context.last_heartbeat_s
        return self.limits.running(last_sign_s)

    @property
    def deadline_us(self) -> int | None:
        """When the running handler has to be over, microseconds since the epoch."""
        attempt_ms, total_us = self.assignment.timeouts.attempt_ms, self.assignment.total_deadline_us
        if attempt_ms is None:
            return total_us
        deadline_us = self.started_at_us + attempt_ms * 1_000
        return deadline_us if total_us is None else min(deadline_us, total_us)

    def begin_limits(self, now_s: float) -> None:
        """The handler is about to be called: the limits that count from the start begin now, by the loop's clock."""
        limits, timeouts = self.limits, self.assignment.timeouts
        assert limits is not None
        self.started_at_s = now_s
        if self.context is not None:
            self.context.last_heartbeat_s = now_s
        if timeouts.attempt_ms is not None:
            limits.attempt_at_s = now_s + timeouts.attempt_ms / 1_000
        if timeouts.heartbeat_ms is not None:
            limits.heartbeat_s = timeouts.heartbeat_ms / 1_000

    def limit_ms(self, kind: TimeoutKind) -> int | None:
        """The limit as configured."""
        timeouts = self.assignment.timeouts
        return {
            "start": timeouts.start_ms,
            "attempt": timeouts.attempt_ms,
            "heartbeat": timeouts.heartbeat_ms,
            "total": timeouts.total_ms,
        }[kind]

    def cancel_timer(self) -> None:
        """No limit matters any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def request_stop(self) -> None:
        """Tell the handler to stop: a CancelledError where it awaits, a flag in its context."""
        self.is_stop_requested = True
        if self.context is not None:
            self.context.request_cancellation()
        if self.running_in is not None:
            self.running_in.cancel()
