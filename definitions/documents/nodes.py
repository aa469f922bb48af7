"""A document as a tree of values that know where they stand.

YAML, JSON and Python values all become such a tree, and from there on take one way; so they can't mean different
things.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

from ductor.definitions.values import JsonValue

Position: TypeAlias = tuple[int, int]
"""1-based line and column; (0, 0) when a document was made in Python."""

NOWHERE: Final[Position] = (0, 0)
SHOWN_LENGTH_MAX: Final = 60
"""Characters of a value that an error shows."""


@dataclass(slots=True)
class Node:
    """A value and where it stands.

    Attributes:
        value: a scalar, a list of nodes, or a map of nodes by key.
        position: of its first character.
        keys: where the keys of a map stand.
        size: values in it, itself included; what aliases repeat counts each time.
        height: levels of maps and lists, 0 for a scalar.
    """

    value: "bool | int | float | str | list[Node] | dict[str, Node] | None"
    position: Position = NOWHERE
    keys: dict[str, Position] | None = None
    size: int = 1
    height: int = 0

    def plain(self) -> JsonValue:
        """The value without positions; its depth is bounded by `Limits.depth`."""
        value = self.value
        if isinstance(value, dict):
            return {key: node.plain() for key, node in value.items()}
        if isinstance(value, list):
            return [node.plain() for node in value]
        return value

    def key_position(self, key: str) -> Position:
        """Where a key of this map stands."""
        return (self.keys or {}).get(key, self.position)

    def kind(self) -> str:
        """What it is, for people: `a list`, `the number 3`."""
        value = self.value
        if isinstance(value, dict):
            return "a map"
        if isinstance(value, list):
            return "a list"
        if value is None:
            return "null"
        if isinstance(value, bool):
            return f"the boolean {str(value).lower()}"
        if isinstance(value, (int, float)):
            return f"the number {value}"
        return f"the text {shorten(value)!r}"


def shorten(text: str, length: int = SHOWN_LENGTH_MAX) -> str:
    """The text, cut where it is longer than an error should show."""
    return text if len(text) <= length else text[: length - 1] + "…"
