"""Regular expressions in RE2's syntax, which never backtracks, with a price by size of pattern and text."""

from functools import lru_cache
from typing import Protocol, cast

import re2

from ductor.definitions.expressions.budget import MAX_PATTERN_LENGTH, UNITS_PER_PATTERN, Meter
from ductor.definitions.expressions.errors import BudgetFault, Fault

MAX_PROGRAM_BYTES = 256 * 1024
"""Memory RE2 may use for one pattern."""
MAX_PATTERNS_KEPT = 256
"""Compiled patterns kept for the next evaluation."""
STEPS_PER_UNIT = 12
"""Characters times instructions of a pattern's program for one unit of cost."""


class Match(Protocol):
    """What a search found."""

    re: "Pattern"

    def group(self, number: int) -> str | None:
        """The text of a group; group 0 is the whole."""


class Pattern(Protocol):
    """A compiled pattern."""

    groups: int
    programsize: int

    def search(self, text: str) -> Match | None:
        """The first match anywhere in the text."""


@lru_cache(maxsize=MAX_PATTERNS_KEPT)
def _compiled(pattern: str) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_PROGRAM_BYTES
    return cast(Pattern, re2.compile(pattern, options))


def search(meter: Meter, text: str, pattern: str) -> Match | None:
    """The first match of a pattern anywhere in a text.

    Raises:
        Fault: the pattern is not one of RE2.
        BudgetFault: the pattern or the text is too long.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise BudgetFault(f"a pattern of {len(pattern)} characters is longer than {MAX_PATTERN_LENGTH}")
    meter.charge_once(f"pattern {pattern}", UNITS_PER_PATTERN)
    try:
        program = _compiled(pattern)
    except re2.error as error:
        reason = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise Fault("invalid_argument", f"the pattern {pattern!r} is not valid in RE2: {reason}") from None
    meter.charge(1 + len(text) * program.programsize // STEPS_PER_UNIT)
    return program.search(text)
