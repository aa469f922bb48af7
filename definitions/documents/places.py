"""Where things stand in a document, by keys that make sense for its manifest.

A manifest holds steps in Kahn order and without sugar, so an index of the document means nothing there. Keys therefore
go by ref: `steps.reserve.input.sku`, `steps.review.next.true[0][1]`, `output`. A place is worked out when it is asked
for, from the tree of the document; a key that leads nowhere gives the place of what is nearest.
"""

from collections.abc import Mapping
from typing import Protocol

from ductor.definitions.documents.nodes import Node
from ductor.definitions.errors import Place
from ductor.definitions.model import Edge


def field_key(ref: str, path: str) -> str:
    """The key of a field of a step; `path` as in `CompiledField.path`."""
    return f"steps.{ref}.{path}" if path else f"steps.{ref}"


def edge_place_key(edge: Edge, prefix: str = "") -> str:
    """The key of an edge; `prefix` is that of the refs of the body it belongs to."""
    start = f"steps.{prefix}{edge.source}.next.{edge.outcome}"
    return f"{start}.{edge.to}" if edge.group is None else f"{start}[{edge.group}][{edge.order}]"


class PlaceLookup(Protocol):
    """Gives the place of a key; a plain dictionary is one too."""

    def get(self, key: str, /) -> Place | None:
        """The place, None when unknown."""


NO_PLACES: Mapping[str, Place] = {}
"""The places of a definition made without a document."""


class DocumentPlaces:
    """The places of one document.

    Attributes:
        edges: places of edges and of the conditions of choices, by their keys.
    """

    def __init__(self, file: str, root: Node) -> None:
        self.edges: dict[str, Place] = {}
        self._file = file
        self._root = root
        self._steps: dict[str, tuple[str, Node, Node | None]] = {}

    def add_step(self, ref: str, path: str, node: Node, defaults: Node | None) -> None:
        """Make a step known: where it stands in the document, and the defaults of its type."""
        self._steps[ref] = (path, node, defaults)

    def get(self, key: str, /) -> Place | None:
        """The place of a key, or of the nearest thing around it; None for a step that is not in the document."""
        known = self.edges.get(key)
        if known is not None:
            return known
        if not key.startswith("steps."):
            return self._place(*_walk(self._root, "", key))
        ref, _, rest = key.removeprefix("steps.").partition(".")
        step = self._steps.get(ref)
        if step is None:
            return None
        path, node, defaults = step
        found_path, found = _walk(node, path, rest)
        if found is node and rest and defaults is not None and isinstance(defaults.value, dict):
            kind = node.value.get("type") if isinstance(node.value, dict) else None
            default_path, default = _walk(defaults, f"defaults.{kind.value if kind else ''}", rest)
            if default is not defaults:
                return self._place(default_path, default)
        return self._place(found_path, found)

    def _place(self, path: str, node: Node) -> Place:
        line, column = node.position
        return Place(path=path, file=self._file, line=line, column=column)


def _walk(node: Node, path: str, rest: str) -> tuple[str, Node]:
    """Follow `rest` (`.key`, `[index]`) from a node as far as it leads.

    Keys may hold dots, so the longest key that fits is taken. `[0]` of what is no list stays where it is, because a
    list of one may be written as its item.
    """
    while rest:
        value = node.value
        if rest.startswith("["):
            key = _quoted_key(value, rest) if isinstance(value, dict) else None
            if key is not None and isinstance(value, dict):
                node, path, rest = value[key], f"{path}[{key!r}]", rest[len(repr(key)) + 2 :]
                continue
            number, _, after = rest[1:].partition("]")
            index = int(number) if number.isdecimal() else -1
            if isinstance(value, list) and 0 <= index < len(value):
                node, path = value[index], f"{path}[{index}]"
            elif index != 0:
                break
            rest = after
            continue
        rest = rest.removeprefix(".")
        key = _longest_key(value, rest) if isinstance(value, dict) else None
        if key is None or not isinstance(value, dict):
            break
        node, path, rest = value[key], f"{path}.{key}" if path else key, rest[len(key) :]
    return path, node


def _quoted_key(value: dict[str, Node], rest: str) -> str | None:
    return next((key for key in value if rest.startswith(f"[{key!r}]")), None)


def _longest_key(value: dict[str, Node], rest: str) -> str | None:
    fitting = [key for key in value if rest.startswith(key) and rest[len(key) : len(key) + 1] in ("", ".", "[")]
    return max(fitting, key=len, default=None)
