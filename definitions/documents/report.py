"""Gathers what is wrong with a document, with the place and what would be valid."""

from collections.abc import Collection
from difflib import get_close_matches
from enum import Enum
from typing import Final

from ductor.definitions.documents.nodes import Position
from ductor.definitions.errors import Place, Problem

NAMES_SHOWN_MAX: Final = 30


class _Invalid(Enum):
    INVALID = "invalid"


INVALID: Final = _Invalid.INVALID
"""What a shape gives for a node that does not fit; the problems are in the report."""


class Report:
    """Gathers problems of one file."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = problems

    def add(self, code: str, message: str, path: str, position: Position, hint: str = "") -> _Invalid:
        """Note a problem; gives `INVALID`, for the reader to hand on."""
        self.problems.append(
            Problem(code=code, message=message, place=self.place(path, position), hint=hint),
        )
        return INVALID

    def place(self, path: str, position: Position) -> Place:
        """A place in this file."""
        return Place(path=path, file=self.file, line=position[0], column=position[1])


def valid_names_hint(name: str, valid: Collection[str]) -> str:
    """`Did you mean ...?` where a valid name is near, else all valid names."""
    near = get_close_matches(name, sorted(valid), n=1, cutoff=0.6)
    if near:
        return f"Did you mean `{near[0]}`?"
    if not valid:
        return ""
    shown = sorted(valid)[:NAMES_SHOWN_MAX]
    return f"Valid: {', '.join(shown)}{', …' if len(valid) > NAMES_SHOWN_MAX else ''}."
