"""The shapes of values in documents.

A shape reads a node into what a struct holds (`30s` into milliseconds, one policy into a tuple of one), or reports
every problem and gives `INVALID`; and it knows its JSON Schema.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from ductor.definitions.documents.nodes import Node, Position, shorten
from ductor.definitions.documents.report import INVALID, Report, valid_names_hint
from ductor.definitions.durations import TimeFormatError, parse_duration_ms, parse_timestamp_us
from ductor.definitions.fields import NAME_PATTERN, REF_LENGTH_MAX, REF_PATTERN
from ductor.definitions.values import JsonObject


class Shape(Protocol):
    """What a place in a document may hold."""

    def accepts(self, node: Node) -> bool:
        """Whether the node is of the right kind at all; tells the members of a union apart."""

    def read(self, node: Node, path: str, report: Report) -> object:
        """Return the value for the struct, or report and return `INVALID`."""

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the document form."""


TextKind: TypeAlias = Literal["text", "name", "ref", "cel", "template"]

_PATTERNS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "ref": (
        re.compile(REF_PATTERN.removesuffix("$")),
        f"A ref has lower-case letters, digits and `_`, begins with a letter, and is at most {REF_LENGTH_MAX} long.",
    ),
    "name": (re.compile(NAME_PATTERN.removesuffix("$")), "A name has no blanks and no control characters."),
}


@dataclass(frozen=True, slots=True)
class TextShape:
    """Text of some kind. CEL may also be written as a bare boolean, which YAML reads as one."""

    kind: TextKind = "text"
    min_length: int = 0
    max_length: int | None = None

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str) or (self.kind == "cel" and isinstance(node.value, bool))

    def read(self, node: Node, path: str, report: Report) -> object:
        value = node.value
        if self.kind == "cel" and isinstance(value, bool):
            return str(value).lower()
        if not isinstance(value, str):
            hint = "Put it in quotes." if not isinstance(value, (list, dict)) else ""
            return report.add("wrong_type", f"expected {self._said()}, found {node.kind()}", path, node.position, hint)
        if self.kind == "cel" and value.startswith("${") and value.endswith("}"):
            hint = "Leave out `${` and `}`."
            return report.add("wrapped_expression", "expected bare CEL, found `${...}`", path, node.position, hint)
        return self._read_text(value, path, node.position, report)

    def _read_text(self, value: str, path: str, position: Position, report: Report) -> object:
        if len(value) < self.min_length:
            return report.add("empty_text", f"expected {self._said()}, found empty text", path, position)
        if self.max_length is not None and len(value) > self.max_length:
            message = f"{self._said()} has at most {self.max_length} characters, found {len(value)}"
            return report.add("text_too_long", message, path, position)
        pattern, hint = _PATTERNS.get(self.kind, (None, ""))
        if pattern is not None and not pattern.fullmatch(value):
            return report.add(f"invalid_{self.kind}", f"`{shorten(value)}` is no {self.kind}", path, position, hint)
        return value

    def _said(self) -> str:
        return {"name": "a name", "ref": "a ref", "cel": "CEL", "template": "text"}.get(self.kind, "text")

    def schema(self) -> JsonObject:
        schema: JsonObject = {"type": ["string", "boolean"] if self.kind == "cel" else "string"}
        if self.min_length:
            schema["minLength"] = self.min_length
        if self.max_length is not None:
            schema["maxLength"] = self.max_length
        if self.kind == "ref":
            schema["pattern"] = REF_PATTERN
        if self.kind == "name":
            schema["pattern"] = NAME_PATTERN
        if self.kind == "cel":
            schema["not"] = {"type": "string", "pattern": r"^\$\{[\s\S]*\}$"}
        return schema


@dataclass(frozen=True, slots=True)
class BooleanShape:
    """`true` or `false`."""

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, bool)

    def read(self, node: Node, path: str, report: Report) -> object:
        if isinstance(node.value, bool):
            return node.value
        return report.add("wrong_type", f"expected true or false, found {node.kind()}", path, node.position)

    def schema(self) -> JsonObject:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class NumberShape:
    """A number within bounds, both included."""

    whole: bool
    minimum: float | None = None
    maximum: float | None = None

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)

    def read(self, node: Node, path: str, report: Report) -> object:
        value = node.value
        said = "a whole number" if self.whole else "a number"
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return report.add("wrong_type", f"expected {said}, found {node.kind()}", path, node.position)
        if self.whole and isinstance(value, float) and not value.is_integer():
            return report.add("wrong_type", f"expected {said}, found {node.kind()}", path, node.position)
        if (self.minimum is not None and value < self.minimum) or (self.maximum is not None and value > self.maximum):
            message = f"{value} is out of range: {self._range()}"
            return report.add("out_of_range", message, path, node.position)
        return int(value) if self.whole else float(value)

    def _range(self) -> str:
        if self.minimum == self.maximum:
            return f"it must be {self.minimum}"
        if self.maximum is None:
            return f"at least {self.minimum}"
        return f"from {self.minimum} to {self.maximum}"

    def schema(self) -> JsonObject:
        schema: JsonObject = {"type": "integer" if self.whole else "number"}
        if self.minimum is not None:
            schema["minimum"] = self.minimum
        if self.maximum is not None:
            schema["maximum"] = self.maximum
        return schema


@dataclass(frozen=True, slots=True)
class ChoiceShape:
    """One of some words."""

    values: tuple[str, ...]

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str)

    def read(self, node: Node, path: str, report: Report) -> object:
        value = node.value
        if isinstance(value, str):
            if value in self.values:
                return value
            hint = valid_names_hint(value, self.values)
            return report.add("invalid_choice", f"`{shorten(value)}` is not valid here", path, node.position, hint)
        hint = f"Valid: {', '.join(self.values)}."
        return report.add("wrong_type", f"expected one word, found {node.kind()}", path, node.position, hint)

    def schema(self) -> JsonObject:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class TimeShape:
    """A duration or a timestamp, as text."""

    kind: Literal["duration", "timestamp"]
    minimum: float | None = None
    maximum: float | None = None

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, str)

    def read(self, node: Node, path: str, report: Report) -> object:
        value = node.value
        if not isinstance(value, str):
            message = f"expected a {self.kind}, found {node.kind()}"
            return report.add("wrong_type", message, path, node.position, "Write it as text with its unit, as 30s.")
        try:
            number = parse_duration_ms(value) if self.kind == "duration" else parse_timestamp_us(value)
        except TimeFormatError as error:
            message = f"{error.text!r} {error.message}"
            return report.add(f"invalid_{self.kind}", message, path, node.position, error.hint)
        if self.minimum is not None and number < self.minimum:
            message = f"`{shorten(value)}` is too {'short' if self.kind == 'duration' else 'early'}"
            return report.add(f"invalid_{self.kind}", message, path, node.position)
        if self.maximum is not None and number > self.maximum:
            message = f"`{shorten(value)}` is too {'long' if self.kind == 'duration' else 'late'}"
            return report.add(f"invalid_{self.kind}", message, path, node.position)
        return number

    def schema(self) -> JsonObject:
        if self.kind == "timestamp":
            return {"type": "string", "format": "date-time"}
        return {"type": "string", "pattern": r"^\+?(0$|P|[0-9])"}


@dataclass(frozen=True, slots=True)
class JsonShape:
    """Any JSON, or any object."""

    is_object: bool = False

    def accepts(self, node: Node) -> bool:
        return not self.is_object or isinstance(node.value, dict)

    def read(self, node: Node, path: str, report: Report) -> object:
        if not self.accepts(node):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        return node.plain()

    def schema(self) -> JsonObject:
        return {"type": "object"} if self.is_object else {}


@dataclass(frozen=True, slots=True)
class ListShape:
    """A list; a list of one may be written as its item."""

    item: Shape

    def accepts(self, node: Node) -> bool:
        return isinstance(node.value, list) or self.item.accepts(node)

    def read(self, node: Node, path: str, report: Report) -> object:
        if not isinstance(node.value, list):
            item = self.item.read(node, path, report)
            return INVALID if item is INVALID else (item,)
        items = [self.item.read(child, f"{path}[{index}]", report) for index, child in enumerate(node.value)]
        return INVALID if INVALID in items else tuple(items)

    def schema(self) -> JsonObject:
        item = self.item.schema()
        return {"anyOf": [{"type": "array", "items": item}, item]}


@dataclass(frozen=True, slots=True)
class UnionShape:
    """One of several shapes, told apart by the kind of the node."""

    members: tuple[Shape, ...]

    def accepts(self, node: Node) -> bool:
        return any(member.accepts(node) for member in self.members)

    def read(self, node: Node, path: str, report: Report) -> object:
        for member in self.members:
            if member.accepts(node):
                return member.read(node, path, report)
        return self.members[0].read(node, path, report)

    def schema(self) -> JsonObject:
        return {"anyOf": [member.schema() for member in self.members]}
