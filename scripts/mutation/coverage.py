"""Which lines of the mutated modules each test runs, and how long it takes: only those tests can notice a fault there.

A test that traces its own execution takes the tracer away from this one; what it runs after that is not known, so it
counts as running everything.
"""

import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from _typeshed import TraceFunction

Line = tuple[str, int]
"""A file as the code names it, and a line."""


class Measured(msgspec.Struct, frozen=True):
    """One test: its CPU time, whether it passed, and the lines that it ran; None where it can't be known."""

    seconds: float
    is_passed: bool
    lines: list[Line] | None


class LineTracer:
    """Collects the lines that run in some files, of all threads."""

    def __init__(self, files: frozenset[str]) -> None:
        self._files: Final = files
        self._lines: set[Line] = set()
        # One and the same object for as long as this lives, so that it can be told from another tracer.
        self._on_call: Final = self._called
        self._on_line: Final = self._ran

    def start(self) -> None:
        """Forget what was collected, and begin."""
        self._lines = set()
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def stop(self) -> list[Line] | None:
        """End, and tell what ran; None where another tracer was set since."""
        is_disturbed = sys.gettrace() is not self._on_call
        sys.settrace(None)
        threading.settrace(None)
        return None if is_disturbed else sorted(self._lines)

    def _called(self, frame: FrameType, *_: object) -> "TraceFunction | None":
        return self._ran(frame) if frame.f_code.co_filename in self._files else None

    def _ran(self, frame: FrameType, *_: object) -> "TraceFunction":
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._on_line
