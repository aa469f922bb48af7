"""Finds what blocks the event loop: a coroutine that computes, or waits for something, without awaiting.

While it does, this process renews no heartbeat and no lease: others take it for dead. That costs time and nothing else
(see `membership`), but somebody has to mend the handler, and needs its name.

```
  turning ──no turn for BLOCKED_AFTER_S──▶ blocked: a thread looks which task runs, and where, and says so
     ▲                                        │
     └──────────────the loop turns────────────┘ for how long it was is told to the log and to the observer
```
A thread looks every PERIOD_S whether the loop has turned. If that thread did not run either, nobody can say what it
was: the process was stopped, or a call that kept Python's lock let no other thread run.

Cost: four turns of the loop and of the thread a second. The thread touches nothing of the loop but to read it.
"""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, Final

import msgspec

from ductor.actors.attempt import Attempt
from ductor.actors.log_fields import attempt_fields

PERIOD_S: Final = 0.25
BLOCKED_AFTER_S: Final = 1.0
"""A turn that takes longer is worth a word: hosts count as dead after three seconds."""
MAX_FRAMES: Final = 4
"""Calls that are named of where the loop's code stands, the innermost first."""

ADVICE: Final = ". Such work belongs in a `def` handler, which gets a thread"

_log = logging.getLogger(__name__)


class Sight(msgspec.Struct, frozen=True):
    """What was seen of a loop that did not turn.

    Attributes:
        attempt: whose handler was running; None when it was something else.
        what: that handler or task, for people.
        where: the calls that were going on.
    """

    attempt: Attempt | None
    what: str
    where: str


class LoopWatch:
    """Watches the running loop from `start` to `stop`. See the module's docstring."""

    def __init__(
        self,
        attempt_in: Callable[[asyncio.Task[Any]], Attempt | None],
        told: Callable[[str, float], None],
    ) -> None:
        """Args:
        attempt_in: whose handler an asyncio task runs; called in another thread while the loop stands.
        told: called on the loop after it was blocked, with the handler's name (empty: something else) and seconds.
        """
        self._attempt_in, self._told = attempt_in, told
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._turned_at_s = self._looked_at_s = monotonic()
        self._sight: Sight | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._turned_at_s = monotonic()
        self._timer = self._loop.call_later(PERIOD_S, self._turn)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._is_over.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    # --- in the loop --------------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        now_s = monotonic()
        blocked_s = now_s - self._turned_at_s - PERIOD_S
        sight, self._sight, self._turned_at_s = self._sight, None, now_s
        self._timer = self._loop.call_later(PERIOD_S, self._turn)
        if blocked_s < BLOCKED_AFTER_S:
            return
        if sight is None:
            _log.warning("this process stood still for %.1f s: it was stopped, or a call kept Python's lock", blocked_s)
            self._told("", blocked_s)
            return
        attempt = sight.attempt
        fields = attempt_fields(attempt.token) if attempt is not None else None
        _log.warning("%s blocked the event loop for %.1f s", sight.what, blocked_s, extra=fields)
        self._told(attempt.assignment.task if attempt is not None else "", blocked_s)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._is_over.wait(PERIOD_S):
            now_s = monotonic()
            pause_s, self._looked_at_s = now_s - self._looked_at_s, now_s
            stands_s = now_s - self._turned_at_s
            if stands_s > BLOCKED_AFTER_S and pause_s < BLOCKED_AFTER_S and self._sight is None:
                sight = self._look()
                if now_s - self._turned_at_s >= stands_s:  # it has not gone on meanwhile
                    self._sight = sight
                    text, told = "%s has blocked the event loop for %.1f s, at %s", (sight.what, stands_s, sight.where)
                    if sight.attempt is None:
                        _log.warning(text, *told)
                    else:
                        _log.warning(text + ADVICE, *told, extra=attempt_fields(sight.attempt.token))

    def _look(self) -> Sight:
        task = asyncio.current_task(self._loop)
        attempt = None if task is None else self._attempt_in(task)
        if attempt is not None:
            what = f"handler {attempt.assignment.task!r} ({attempt.token})"
        else:
            what = "a callback" if task is None else f"task {task.get_name()!r}"
        return Sight(attempt, what, _calls(sys._current_frames().get(self._loop_thread)))  # noqa: SLF001 - documented


def _calls(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None and len(calls) < MAX_FRAMES:
        calls.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(calls)
