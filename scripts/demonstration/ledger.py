"""A book beside the journal, written by the handlers themselves: what really ran, how often, in which process.

The engine knows nothing of it. Each line is on the disk before the handler goes on, so a killed process leaves the
truth behind: a call that began and never ended.
"""

import enum
import os
from pathlib import Path

import msgspec


class Event(enum.StrEnum):
    """What a handler says of a call of its own."""

    BEGAN = "began"
    ENDED = "ended"
    FAILED = "failed"


class Entry(msgspec.Struct, frozen=True):
    """One line. `key` is the attempt's idempotency key, `pid` the process."""

    step: str
    key: str
    event: Event
    pid: int


class Ledger:
    """The book in a file; several processes may write it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, step: str, key: str, event: Event) -> None:
        """Append a line and have it on the disk."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, msgspec.json.encode(Entry(step, key, event, os.getpid())) + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> list[Entry]:
        """All lines, in the order of their writing."""
        if not self.path.exists():
            return []
        return [msgspec.json.decode(line, type=Entry) for line in self.path.read_bytes().splitlines()]
