"""Builds the tree of a document from the events of a reader, within the limits.

A reader calls `scalar`, `open_list`, `open_map`, `key`, `close` and `alias` in document order. What can be passed over
(a key given twice, a number out of range) is noted in `problems`, so that the rest is read as well; what makes the rest
unreadable raises. Nothing here recurses, and aliases are counted as if written out, so that no document, however made,
takes more than its limits.
"""

from typing import Final, NoReturn

from ductor.definitions.documents.nodes import Node, Position, shorten
from ductor.definitions.errors import DefinitionError, Place, Problem
from ductor.definitions.limits import Limits
from ductor.definitions.manifest import number_is_canonical

HALF_A_PAIR: Final = "the text holds half a surrogate pair, which is no character"


class TreeBuilder:
    """Builds one tree after another; `root` is the last one finished."""

    def __init__(self, limits: Limits, file: str, problems: list[Problem]) -> None:
        self.problems = problems
        self.root: Node | None = None
        self._limits = limits
        self._file = file
        self._open: list[tuple[Node, str | None]] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, Node | None] = {}
        self._aliases = 0
        self._nodes = 0
        self._nodes_max = limits.nodes

    @property
    def in_map(self) -> bool:
        """Whether the innermost open value is a map, where a key comes before each value."""
        return bool(self._open) and isinstance(self._open[-1][0].value, dict)

    def start_document(self) -> None:
        """Begin a new document: anchors do not reach across documents."""
        self._anchors.clear()
        self.root = None

    def scalar(self, value: bool | int | float | str | None, position: Position, anchor: str | None = None) -> None:
        """Add a scalar value."""
        if isinstance(value, str):
            value = self._checked(value, position)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and not number_is_canonical(value):
            self.report_number(str(value), position)
            value = 0
        node = Node(value, position)
        self._add(node)
        if anchor is not None:
            self._anchors[anchor] = node

    def open_list(self, position: Position, anchor: str | None = None) -> None:
        """Begin a list."""
        self._begin(Node([], position), anchor)

    def open_map(self, position: Position, anchor: str | None = None) -> None:
        """Begin a map."""
        self._begin(Node({}, position, {}), anchor)

    def key(self, text: str, position: Position) -> None:
        """Name the value that comes next."""
        if len(text) > self._limits.key_length:
            self.stop_at_limit("key_length", "characters in one key", position)
        text = self._checked(text, position)
        keys = self._open[-1][0].keys
        if keys is None or text not in keys:
            self._keys.append(text)
            if keys is not None:
                keys[text] = position
            return
        line, column = keys[text]
        before = f", first in line {line}, column {column}" if line else ""
        self.report("duplicate_key", f"the key `{shorten(text)}` is given twice{before}", position, "Keep one of them.")
        self._keys.append(None)

    def close(self) -> None:
        """End the innermost list or map."""
        node, anchor = self._open.pop()
        value = node.value
        children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        node.size += sum(child.size for child in children)
        node.height = 1 + max((child.height for child in children), default=0)
        if anchor is not None:
            self._anchors[anchor] = node

    def alias(self, anchor: str, position: Position) -> None:
        """Repeat the value of an anchor."""
        self._aliases += 1
        if self._aliases > self._limits.aliases:
            self.stop_at_limit("aliases", "aliases in a file", position)
        if anchor not in self._anchors:
            self.stop("unknown_anchor", f"no anchor `&{shorten(anchor)}` stands before", position)
        node = self._anchors[anchor]
        if node is None:
            self.stop("alias_cycle", f"`*{shorten(anchor)}` stands within its own anchor", position)
        if len(self._open) + node.height > self._limits.depth:
            self.stop_at_limit("depth", "maps and lists within each other", position)
        self._nodes += node.size - 1
        self._add(node)

    def report(self, code: str, message: str, position: Position, hint: str = "") -> None:
        """Note a problem that the rest of the document can be read in spite of."""
        place = Place(file=self._file, line=position[0], column=position[1])
        self.problems.append(Problem(code=code, message=message, place=place, hint=hint))

    def report_number(self, number: str, position: Position) -> None:
        """Note a number that canonical JSON can't carry."""
        hint = "Whole numbers reach from -(2**53 - 1) to 2**53 - 1; write a larger one, or an identifier, as text."
        self.report("number_out_of_range", f"the number {shorten(number)} can't be carried exactly", position, hint)

    def stop(self, code: str, message: str, position: Position, hint: str = "") -> NoReturn:
        """End the reading: what follows can't be understood.

        Raises:
            DefinitionError: always, with everything noted so far.
        """
        self.report(code, message, position, hint)
        raise DefinitionError(self.problems)

    def stop_at_limit(self, limit: str, counted: str, position: Position) -> NoReturn:
        """End the reading at a limit.

        Raises:
            DefinitionError: always.
        """
        self.stop("limit_exceeded", f"more than {getattr(self._limits, limit):,} {counted} (limit `{limit}`)", position)

    def _begin(self, node: Node, anchor: str | None) -> None:
        if len(self._open) >= self._limits.depth:
            self.stop_at_limit("depth", "maps and lists within each other", node.position)
        self._add(node)
        if anchor is not None:
            self._anchors[anchor] = None
        self._open.append((node, anchor))

    def _add(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > self._nodes_max:
            self.stop_at_limit("nodes", "values in a file", node.position)
        if not self._open:
            self.root = node
            return
        parent = self._open[-1][0].value
        if isinstance(parent, list):
            parent.append(node)
        elif isinstance(parent, dict):
            key = self._keys.pop()
            if key is not None:
                parent[key] = node

    def _checked(self, text: str, position: Position) -> str:
        """The text, with what is no character written out, so that nobody stumbles over it later."""
        if len(text) > self._limits.text_length:
            self.stop_at_limit("text_length", "characters in one text", position)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                self.report("invalid_text", HALF_A_PAIR, position)
                return text.encode(errors="backslashreplace").decode()
        return text
