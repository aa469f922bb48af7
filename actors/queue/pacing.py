"""How often to look at what tells nobody when it changes: often while things happen there, seldom afterwards. Pure.

The pause between two looks is a share of the time for which nothing has happened, within bounds. So whoever waits for
something that took long waits longer by this share at most, one that happens all the time is seen after the shortest
pause, and what stays quiet is looked at no more often than the longest pause allows.
"""

from typing import Final

BUSY_PAUSE_MS: Final = 20
"""The shortest pause between two looks."""
QUIET_SHARE: Final = 20
"""A pause is the quiet time before it divided by this."""


class Pacing:
    """The pauses of one that looks. Times are those of a monotonic clock, in seconds."""

    def __init__(self, idle_pause_ms: int) -> None:
        """Args: `idle_pause_ms` is the longest pause, and the first: nothing is known to have happened."""
        self._idle_pause_ms = idle_pause_ms
        self._stirred_at_s = float("-inf")

    def stirred(self, now_s: float) -> None:
        """Something has happened, or is expected to happen soon."""
        self._stirred_at_s = now_s

    def pause_ms(self, now_s: float) -> int:
        """How long to pause before the next look."""
        quiet_ms = (now_s - self._stirred_at_s) * 1_000
        return int(min(max(quiet_ms / QUIET_SHARE, BUSY_PAUSE_MS), self._idle_pause_ms))
