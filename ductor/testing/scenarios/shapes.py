"""Shapes of documents that scenario files have and definitions have not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ductor.definitions.documents.nodes import Node
from ductor.definitions.documents.report import INVALID, Report
from ductor.definitions.errors import Place
from ductor.definitions.parsing.shapes import Shape, TextShape, TimeShape
from ductor.definitions.parsing.struct_shapes import FieldShape, StructShape
from ductor.definitions.values import JsonObject

DURATION: Final = TimeShape("duration")
TEXT: Final = TextShape(min_length=1)


@dataclass(frozen=True, slots=True)
class MapShape:
    """A map of things by name."""

    item: Shape

    def accepts(self, node: Node) -> bool:
        """See `Shape`."""
        return isinstance(node.value, dict)

    def read(self, node: Node, path: str, report: Report) -> object:
        """See `Shape`."""
        if not isinstance(node.value, dict):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        items = {key: self.item.read(child, f"{path}.{key}", report) for key, child in node.value.items()}
        return INVALID if any(item is INVALID for item in items.values()) else items

    def schema(self) -> JsonObject:
        """See `Shape`."""
        return {"type": "object", "additionalProperties": self.item.schema()}


@dataclass(frozen=True, slots=True)
class NullShape:
    """Nothing, said on purpose."""

    def accepts(self, node: Node) -> bool:
        """See `Shape`."""
        return node.value is None

    def read(self, node: Node, path: str, report: Report) -> object:
        """See `Shape`."""
        if node.value is None:
            return None
        return report.add("wrong_type", f"expected null, found {node.kind()}", path, node.position)

    def schema(self) -> JsonObject:
        """See `Shape`."""
        return {"type": "null"}


@dataclass(frozen=True, slots=True)
class BuiltShape:
    """A map read by `fields`, from whose values and place `build` makes the thing itself."""

    fields: StructShape
    build: Callable[[Mapping[str, Any], Place, Report], object]

    def accepts(self, node: Node) -> bool:
        """See `Shape`."""
        return isinstance(node.value, dict)

    def read(self, node: Node, path: str, report: Report) -> object:
        """See `Shape`."""
        if not isinstance(node.value, dict):
            return report.add("wrong_type", f"expected a map, found {node.kind()}", path, node.position)
        values, sound = self.fields.read_fields(node, path, report)
        sound = self.fields.report_missing(values, node, path, report) and sound
        return self.build(values, report.place(path, node.position), report) if sound else INVALID

    def schema(self) -> JsonObject:
        """See `Shape`."""
        return self.fields.map_schema()


def field(key: str, shape: Shape, *, attribute: str = "", required: bool = False) -> tuple[str, list[FieldShape]]:
    """A field of a map, with its key in documents."""
    return key, [FieldShape(attribute or key, key, shape, required)]
