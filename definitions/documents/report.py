"""Gathers what is wrong with a document, with the place and what would be valid."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Final

from ductor.definitions.documents.nodes import Position
from ductor.definitions.errors import DefinitionError, Place, Problem
from ductor.definitions.limits import Limits

NAMES_SHOWN_MAX: Final = 30
"""Valid names listed by one problem."""

NAMES_COMPARED_MAX: Final = 500
"""Valid names that a misspelt one is compared with."""


class _Invalid(Enum):
    INVALID = "invalid"


INVALID: Final = _Invalid.INVALID
"""What a shape gives for a node that does not fit; the problems are in the report."""


class ProblemList(list[Problem]):
    """The problems of one text, at most as many as the limit says.

    The one beyond raises a `DefinitionError` with those so far: a text with that many takes long to go through, and
    nobody reads on.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limit = limits.problems

    def append(self, problem: Problem) -> None:
        """Note a problem.

        Raises:
            DefinitionError: there are too many.
        """
        if len(self) == self._limit:
            message = f"there are more than {self._limit} problems; the rest is not shown (limit `problems`)"
            raise DefinitionError([*in_document_order(self), Problem(code="more_problems", message=message)])
        super().append(problem)


def in_document_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems as they stand in the document; those without a line keep their order."""
    return sorted(problems, key=lambda one: (one.place.file, one.place.line, one.place.column))


class Report:
    """Notes the problems of one file."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems

    def add(self, code: str, message: str, path: str, position: Position, hint: str = "") -> _Invalid:
        """Note a problem; gives `INVALID`, for the reader to hand on."""
        self.problems.append(Problem(code=code, message=message, place=self.place(path, position), hint=hint))
        return INVALID

    def place(self, path: str, position: Position) -> Place:
        """A place in this file."""
        return Place(path=path, file=self.file, line=position[0], column=position[1])


def valid_names_hint(name: str, valid: Collection[str]) -> str:
    """`Did you mean ...?` where a valid name is near, else all valid names."""
    # Comparing is slow, so of thousands of names those with the same first letter are looked at first.
    candidates = sorted(valid, key=lambda one: (one[:1] != name[:1], one))[:NAMES_COMPARED_MAX]
    near = get_close_matches(name, candidates, n=1, cutoff=0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    if not valid:
        return ""
    shown = sorted(valid)[:NAMES_SHOWN_MAX]
    return f"Valid: {', '.join(shown)}{', …' if len(valid) > NAMES_SHOWN_MAX else ''}."
