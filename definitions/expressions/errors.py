"""Errors of expressions: those found while compiling one, and those of an evaluation.

`Fault` is internal: operators and functions raise it without knowing which expression they serve; the expression that
was evaluated turns it into an `ExpressionError` with its source and its place. A `BudgetFault` is never absorbed by
`&&`, `||` or `default`.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Literal, TypeAlias

from ductor.definitions.errors import DuctorError, Place, Problem

MAX_NAMES_SHOWN = 3
"""How many nearest names an error names."""
MAX_NAMES_COMPARED = 200
"""How many names an error looks through for the nearest."""
MAX_NAME_LENGTH = 100
"""How many characters of a missing name are compared."""
MAX_SOURCE_SHOWN = 200
"""Characters of an expression shown in the text of an error; its field has them all."""

FaultKind: TypeAlias = Literal[
    "missing_key",
    "index_out_of_range",
    "no_such_overload",
    "division_by_zero",
    "overflow",
    "invalid_argument",
    "unbound_variable",
    "duplicate_key",
    "not_boolean",
    "not_json",
    "function_failed",
    "budget",
]

ADVICE: dict[FaultKind, str] = {
    "missing_key": "Guard the path with has(...) or default(..., fallback).",
    "index_out_of_range": "Check size(...) first, or use default(..., fallback).",
    "no_such_overload": "Convert the values first, as with string(...), int(...) or double(...).",
    "division_by_zero": "Guard the divisor, as in `d == 0 ? 0 : n / d`.",
    "overflow": "Integers hold 64 bits; compute with double(...) or keep the number as text.",
    "invalid_argument": "Correct the argument.",
    "unbound_variable": "Use a variable that exists where this expression stands.",
    "duplicate_key": "Make the keys distinct.",
    "not_boolean": "Compare, as in `x == true` or `x != null`, so that the result is true or false.",
    "not_json": "Convert the result, as with string(...).",
    "function_failed": "Correct the argument, or the function the host registered.",
    "budget": "Work on less data, or do the work in a task.",
}


def nearest_names(name: str, known: Iterable[object]) -> tuple[str, ...]:
    """The names among the first of `known` that a person most likely meant by `name`, best first."""
    compared = [other for other in islice(known, MAX_NAMES_COMPARED) if isinstance(other, str)]
    return tuple(get_close_matches(name[:MAX_NAME_LENGTH], sorted(compared), n=MAX_NAMES_SHOWN, cutoff=0.6))


def _shown(source: str) -> str:
    return source if len(source) <= MAX_SOURCE_SHOWN else f"{source[:MAX_SOURCE_SHOWN]}…"


class Fault(Exception):
    """An evaluation can't go on.

    Attributes:
        kind: see `ExpressionError`, as for the next two.
        message: without a full stop.
        key: the missing key or index.
        available: the keys there are, looked at only if the fault becomes an error: many faults are absorbed.
        advice: what to do, where the advice for the kind can be bettered.
    """

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        key: str | int | None = None,
        available: Iterable[object] = (),
        advice: str = "",
    ) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.key = key
        self.available = available
        self.advice = advice


class BudgetFault(Fault):
    """An evaluation went over one of the limits of `ductor.definitions.expressions.budget`."""

    def __init__(self, message: str) -> None:
        super().__init__("budget", message)


NOWHERE = Place()
"""The place of an expression that stands in no document."""


class ExpressionError(DuctorError):
    """An expression could not be evaluated.

    Attributes:
        source: text of the expression.
        place: where it stands in the document.
        kind: what went wrong, for programs.
        message: what went wrong, for people.
        key: the missing key or index, if `kind` is about one.
        nearest: available keys that resemble `key`, best first.
        advice: what to do.
    """

    code = "expression_failed"

    def __init__(self, source: str, place: Place, fault: Fault) -> None:
        self.source = source
        self.place = place
        self.kind = fault.kind
        self.message = fault.message
        self.key = fault.key
        self.nearest = nearest_names(fault.key, fault.available) if isinstance(fault.key, str) else ()
        self.advice = fault.advice or ADVICE[fault.kind]
        where = f"{place}: " if str(place) else ""
        meant = f" Did you mean {' or '.join(repr(name) for name in self.nearest)}?" if self.nearest else ""
        super().__init__(f"{where}`{_shown(source)}`: {self.message}.{meant} {self.advice}")


class ExpressionSyntaxError(DuctorError):
    """A text is not a valid expression or template.

    Attributes:
        source: text of the expression.
        place: where it stands in the document.
        kind: `syntax`, `unknown_variable`, `unknown_function`, `wrong_arguments`, `not_constant` or `limit`.
        message: what is wrong.
        hint: what would be valid.
        offset: 0-based, within `source`, in characters.
        line: 1-based, within `source`.
        column: 1-based, within `source`, in characters.
        others: the other errors of the same template.
    """

    code = "invalid_expression"
    others: "tuple[ExpressionSyntaxError, ...]" = ()

    def __init__(
        self, source: str, offset: int, message: str, *, kind: str = "syntax", hint: str = "", place: Place = NOWHERE
    ) -> None:
        self.source = source
        self.place = place
        self.kind = kind
        self.message = message
        self.hint = hint
        self.offset = offset
        self.line = source.count("\n", 0, offset) + 1
        self.column = offset - (source.rfind("\n", 0, offset) + 1) + 1
        where = f"{place}: " if str(place) else ""
        advice = f" {hint}" if hint else ""
        super().__init__(f"{where}`{_shown(source)}`, line {self.line} column {self.column}: {message}.{advice}")

    def at(self, place: Place) -> "ExpressionSyntaxError":
        """The same error, told of where its expression stands."""
        return ExpressionSyntaxError(
            self.source, self.offset, self.message, kind=self.kind, hint=self.hint, place=place
        )

    def among(self, others: "Sequence[ExpressionSyntaxError]") -> "ExpressionSyntaxError":
        """The error, with the others found beside it."""
        self.others = tuple(others)
        return self

    def problem(self) -> Problem:
        """The error as one problem of a document."""
        message = f"`{_shown(self.source)}`, line {self.line} column {self.column}: {self.message}"
        return Problem(code=f"expression_{self.kind}", message=message, place=self.place, hint=self.hint)
