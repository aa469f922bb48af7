"""Time is handed in. `Clock` is what the edge of the engine reads; fold and tick get its readings as arguments."""

import time
from collections.abc import Callable
from typing import Final, Protocol

MAX_CLOCK_ERROR_US: Final = 100_000
"""A reading of the database's clock that may be further off than this is only taken where there is no better one."""


class Clock(Protocol):
    """A source of wall-clock time."""

    def now_us(self) -> int:
        """Microseconds since the epoch (UTC)."""
        ...


class SystemClock:
    """The machine's clock, corrected to the database's: PostgreSQL decides what is due.

    The wall clock is read once and followed by the monotonic one, so that setting the machine's time while a host runs
    makes no timer fire early or late.

    Args:
        wall_ns, monotonic_ns: the machine's two clocks, in nanoseconds.

    Attributes:
        offset_us: how far the database's clock is ahead.
        error_us: how far off that may be: half of the round trip that told it; None before the first.
    """

    def __init__(
        self, wall_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._origin_ns = wall_ns() - monotonic_ns()
        self.offset_us = 0
        self.error_us: int | None = None

    def now_us(self) -> int:
        """Microseconds since the epoch by the database's clock, as far as `synchronise` knows it."""
        return (self._origin_ns + self._monotonic_ns()) // 1_000 + self.offset_us

    def uncorrected_us(self) -> int:
        """Microseconds since the epoch by this machine's clock."""
        return (self._origin_ns + self._monotonic_ns()) // 1_000

    def synchronise(self, database_now_us: int, sent_at_us: int, received_at_us: int) -> None:
        """Take the database's reading, made between two uncorrected readings of this machine's clock.

        One that was long under way (the network was slow, the process was stopped) says little and is left out, unless
        what is known is no better. What is known stays as long as no better reading comes and none contradicts it: else
        the clock would move to and fro with the load of the database, and timers fire early by as much.
        """
        error_us = (received_at_us - sent_at_us) // 2
        offset_us = database_now_us - (sent_at_us + received_at_us) // 2
        is_better = self.error_us is None or error_us < self.error_us
        is_usable = self.error_us is None or error_us <= max(self.error_us, MAX_CLOCK_ERROR_US)
        if is_better or (is_usable and abs(offset_us - self.offset_us) > error_us):
            self.error_us = error_us
            self.offset_us = offset_us
