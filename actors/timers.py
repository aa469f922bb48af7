"""Timers of runs on this host: one heap, one timer of the loop.

A timer here only wakes a coordinator; that a deadline exists is a fact of the journal, and what is due is judged by the
tick. None fires early by the clock handed in. Timers that this host never heard of, or dropped because there were too
many, are found by the sweeper.
"""

import asyncio
import heapq
from collections.abc import Callable

from ductor.journal.clock import Clock

MAX_ARMED_TIMERS = 500_000
"""Runs with a timer in memory at most; beyond it the sweeper serves them from the database."""

MAX_FIRED_PER_LOOP_STEP = 500
"""So that many timers due at one moment do not starve the loop."""

MAX_SLEEP_S = 60.0
"""The clock may be corrected while we sleep: look again after this long at the latest."""


class TimerService:
    """Wakes runs when their earliest deadline has come."""

    def __init__(self, clock: Clock, fire: Callable[[str], None]) -> None:
        self._clock = clock
        self._fire = fire
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._handle: asyncio.TimerHandle | None = None
        self._handle_due_us = 0
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._due)

    def arm(self, run_id: str, due_at_us: int | None) -> None:
        """The run's earliest deadline from now on; None disarms."""
        if due_at_us is None:
            self._due.pop(run_id, None)
            return
        if self._due.get(run_id) == due_at_us:
            return
        if len(self._due) >= MAX_ARMED_TIMERS and run_id not in self._due:
            return
        self._due[run_id] = due_at_us
        heapq.heappush(self._heap, (due_at_us, run_id))
        if self._handle is None or due_at_us < self._handle_due_us:
            self._sleep_until(due_at_us)

    def close(self) -> None:
        """Forget all timers."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._due.clear()
        self._heap.clear()

    def _sleep_until(self, due_at_us: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        # a microsecond is added: rounding must never wake us before the deadline only to sleep again
        delay_s = min((due_at_us - self._clock.now_us() + 1) / 1e6, MAX_SLEEP_S)
        self._handle_due_us = due_at_us
        self._handle = self._loop.call_later(max(delay_s, 0.0), self._wake)

    def _wake(self) -> None:
        self._handle = None
        heap, due = self._heap, self._due
        now_us = self._clock.now_us()
        fired = 0
        while heap:
            at_us, run_id = heap[0]
            if due.get(run_id) != at_us:
                heapq.heappop(heap)
            elif at_us > now_us or fired >= MAX_FIRED_PER_LOOP_STEP:
                self._sleep_until(at_us)
                return
            else:
                heapq.heappop(heap)
                del due[run_id]
                fired += 1
                self._fire(run_id)
