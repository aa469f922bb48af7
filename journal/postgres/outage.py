"""Words about a server that does not serve: one line when that begins, one a minute while it lasts, one at its end.

Whoever calls the server in vain hears of it by an error, and has nothing to add to the log: ten loops and a thousand
runs that try again would say the same thing thousands of times.

```
  serving ──a call fails──▶ away ──a call is answered, QUIET_S after the last one that failed──▶ serving
     says why                 │ says how long, every REMINDER_S                        says how long it was
```
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

REMINDER_S: Final = 60.0
QUIET_S: Final = 1.0
"""Calls that fail and calls that are answered in turn are one outage."""

_log = logging.getLogger(__name__)


class Outage:
    """What one part of a process knows of a server's outages. See the module's docstring.

    Attributes:
        failed: calls in vain of the present outage; 0 while the server serves.
    """

    def __init__(self, server: str, now_s: Callable[[], float] = monotonic) -> None:
        """Args:
        server: its name, as a sentence begins with it.
        now_s: a clock that never goes back.
        """
        self._server, self._now_s = server, now_s
        self._began_s = self._latest_s = self._said_s = 0.0
        self.failed = 0

    def note_failure(self, error: Exception) -> None:
        """A call was in vain."""
        now_s = self._latest_s = self._now_s()
        self.failed += 1
        if self.failed == 1:
            self._began_s = self._said_s = now_s
            _log.warning("%s is away, and is tried again: %s", self._server, error)
        elif now_s - self._said_s >= REMINDER_S:
            self._said_s = now_s
            _log.warning(
                "%s is away for %.0f s, %d calls have failed: %s",
                self._server,
                now_s - self._began_s,
                self.failed,
                error,
            )

    def note_answer(self) -> None:
        """A call was answered."""
        if not self.failed or self._now_s() - self._latest_s < QUIET_S:
            return
        _log.warning(
            "%s is back after %.1f s, in which %d calls failed",
            self._server,
            self._now_s() - self._began_s,
            self.failed,
        )
        self.failed = 0
