"""Time is handed in. `Clock` is what the edge of the engine reads; fold and tick get its readings as arguments."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time."""

    def now_us(self) -> int:
        """Microseconds since the epoch (UTC)."""
        ...


class SystemClock:
    """The machine's clock, corrected to the database's: PostgreSQL decides what is due."""

    def __init__(self) -> None:
        self.offset_us = 0

    def now_us(self) -> int:
        """Microseconds since the epoch by the database's clock, as far as `synchronise` knows it."""
        return time.time_ns() // 1_000 + self.offset_us

    def uncorrected_us(self) -> int:
        """Microseconds since the epoch by this machine's clock."""
        return time.time_ns() // 1_000

    def synchronise(self, database_now_us: int, sent_at_us: int, received_at_us: int) -> None:
        """Take the database's reading, made between two uncorrected readings of this machine's clock."""
        self.offset_us = database_now_us - (sent_at_us + received_at_us) // 2
