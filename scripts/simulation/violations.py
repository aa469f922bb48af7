"""What was found to be wrong in a campaign."""

from collections.abc import Callable
from typing import Final

import msgspec

MAX_VIOLATIONS: Final = 50
"""Kept of one campaign; the first ones tell most."""


class Violation(msgspec.Struct, frozen=True):
    """One broken invariant.

    Attributes:
        rule: which one, by name; shrinking keeps a campaign that still breaks the same rule.
        what: what happened instead.
        run_id: of which run; empty where it is none's.
        at_ms: when it was noticed, virtual milliseconds since the campaign's beginning.
    """

    rule: str
    what: str
    run_id: str = ""
    at_ms: int = 0

    def __str__(self) -> str:
        run = f" run {self.run_id}" if self.run_id else ""
        return f"[{self.rule}]{run} at {self.at_ms} ms: {self.what}"


class Violations:
    """Those of one campaign, in order."""

    def __init__(self, on_first: Callable[[], None]) -> None:
        """Args: `on_first` is called with the first one."""
        self.found: list[Violation] = []
        self._on_first = on_first

    def add(self, violation: Violation) -> None:
        """Keep one more."""
        if not self.found:
            self._on_first()
        if len(self.found) < MAX_VIOLATIONS:
            self.found.append(violation)
