"""Virtual time and repeatable identifiers: the two sources of difference between two runs of one test, handed in."""

import uuid
from hashlib import sha256
from typing import Final

from ductor.journal.ids import derived_run_id

START_US: Final = 1_767_225_600_000_000
"""Where virtual time begins unless told otherwise: 2026-01-01T00:00:00Z."""


class VirtualClock:
    """A clock that stands still until the loop it drives (`VirtualTimeLoop`) has nothing left to run.

    One clock may drive several loops one after another: time goes on where the last one stopped.

    Args:
        start_us: its first reading, in microseconds since the epoch.
    """

    def __init__(self, start_us: int = START_US) -> None:
        self.start_us = start_us
        self.elapsed_s = 0.0

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self.start_us + self.elapsed_us

    @property
    def elapsed_us(self) -> int:
        """Virtual microseconds since the beginning."""
        return round(self.elapsed_s * 1_000_000)

    def advance(self, seconds: float) -> None:
        """Move time forward."""
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds} s")
        self.elapsed_s += seconds


class RepeatableIds:
    """Identifiers from a counter: the same in every run of a test, never the same twice in one.

    Args:
        clock: where the time within run ids comes from.
        seed: two sources with different seeds give different identifiers.
    """

    def __init__(self, clock: VirtualClock, seed: str = "ductor") -> None:
        self._clock = clock
        self._seed = seed
        self._given = 0

    def run_id(self) -> str:
        """A UUIDv7 as text."""
        return derived_run_id(self._clock.now_us(), self._seed, "run", str(self._next()))

    def commit_id(self) -> uuid.UUID:
        """A UUID."""
        return uuid.UUID(bytes=sha256(f"{self._seed}/commit/{self._next()}".encode()).digest()[:16])

    def _next(self) -> int:
        self._given += 1
        return self._given
