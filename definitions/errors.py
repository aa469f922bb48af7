"""The root of ductor's one error hierarchy, and the errors of definitions.

Every error carries fields; its text is made from them and says what happened, where, and what to do. Rooms add their
own errors below `DuctorError` in their own `errors.py`.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where in a document something stands.

    Attributes:
        file: name of the file, empty for a document made in Python.
        line: 1-based, 0 when unknown.
        column: 1-based, 0 when unknown.
        path: the path in the document, as `steps[2].input.sku`.
    """

    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """`file:line:column (path)`, leaving out what is unknown."""
        position = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        if position and self.path:
            return f"{position} ({self.path})"
        return position or self.path


class DuctorError(Exception):
    """Anything that ductor refuses or reports. `code` is stable and meant for programs."""

    code: ClassVar[str] = "ductor"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing wrong with a document.

    Attributes:
        code: stable, for programs, as `unknown_key`.
        message: what is wrong, one sentence.
        place: where.
        hint: what would be valid or what to do; empty when there is nothing to add.
    """

    code: str
    message: str
    place: Place = Place()
    hint: str = ""

    def __str__(self) -> str:
        """One line for a person."""
        where = f"{self.place}: " if str(self.place) else ""
        hint = f". {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"


class DefinitionError(DuctorError):
    """A document is not a valid definition; `problems` names everything that is wrong with it, in document order."""

    code = "invalid_definition"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the definition has {count} problem{'s' if count != 1 else ''}:\n{lines}")
