"""JSON text (RFC 8259) as a tree, exactly: no duplicate keys, no comments, no trailing commas, no NaN."""

import re
from bisect import bisect_right
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]  # the scanner of a string, missing in the stubs
from typing import Final, NoReturn

from ductor.definitions.documents.nodes import Node, Position, shorten
from ductor.definitions.documents.tree import TreeBuilder
from ductor.definitions.errors import Problem
from ductor.definitions.limits import Limits

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS: Final = {"true": True, "false": False, "null": None}
_WORD: Final = re.compile(r"true|false|null")
_NUMBER_DIGITS_MAX: Final = 400


def read_json(text: str, limits: Limits, file: str, problems: list[Problem]) -> Node:
    """Return the tree of a JSON text.

    Raises:
        DefinitionError: the text is no JSON.
    """
    return _JsonReader(text, TreeBuilder(limits, file, problems)).read()


class _JsonReader:
    """A scanner with an explicit stack: `_closers` holds the bracket that ends each open value."""

    def __init__(self, text: str, builder: TreeBuilder) -> None:
        self._text = text
        self._builder = builder
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]
        self._closers: list[str] = []
        self._offset = 0

    def read(self) -> Node:
        self._skip_blank()
        while True:
            opened = self._value()
            if not opened and not self._after_value():
                break
        if self._offset < len(self._text):
            self._stop("a JSON text holds one value; more follows")
        if self._builder.root is None:
            raise AssertionError("the reader ended without a value")
        return self._builder.root

    def _value(self) -> bool:
        """Read a scalar or open a list or map; true when another value (of the opened one) comes next."""
        text, offset = self._text, self._offset
        character = text[offset : offset + 1]
        position = self._position(offset)
        if character == '"':
            self._builder.scalar(self._string(), position)
        elif character in ("{", "["):
            return self._open(character, position)
        elif number := _NUMBER.match(text, offset):
            self._offset = number.end()
            self._number(number, position)
        elif word := _WORD.match(text, offset):
            self._offset = word.end()
            self._builder.scalar(_WORDS[word[0]], position)
        else:
            self._stop("expected a value" if character else "the text ends where a value should stand")
        return False

    def _open(self, character: str, position: Position) -> bool:
        is_map = character == "{"
        if is_map:
            self._builder.open_map(position)
        else:
            self._builder.open_list(position)
        self._closers.append("}" if is_map else "]")
        self._offset += 1
        self._skip_blank()
        if self._text.startswith(self._closers[-1], self._offset):
            return False
        if is_map:
            self._key()
        return True

    def _after_value(self) -> bool:
        """Close what ends here; true when another value comes."""
        while self._closers:
            self._skip_blank()
            character = self._text[self._offset : self._offset + 1]
            if character == self._closers[-1]:
                self._offset += 1
                self._closers.pop()
                self._builder.close()
            elif character == ",":
                self._offset += 1
                self._skip_blank()
                if self._builder.in_map:
                    self._key()
                return True
            else:
                self._stop(f"expected `,` or `{self._closers[-1]}`" if character else "the text ends too early")
        self._skip_blank()
        return False

    def _key(self) -> None:
        if not self._text.startswith('"', self._offset):
            self._stop("expected a key in double quotes")
        position = self._position(self._offset)
        self._builder.key(self._string(), position)
        self._skip_blank()
        if not self._text.startswith(":", self._offset):
            self._stop("expected `:` after the key")
        self._offset += 1
        self._skip_blank()

    def _string(self) -> str:
        try:
            value: str
            value, self._offset = scanstring(self._text, self._offset + 1, True)
        except JSONDecodeError as error:
            self._offset = error.pos
            self._stop(error.msg[:1].lower() + error.msg[1:])
        return value

    def _number(self, number: re.Match[str], position: Position) -> None:
        if len(number[0]) > _NUMBER_DIGITS_MAX:
            self._builder.report_number(number[0], position)
            self._builder.scalar(0, position)
        elif number[2] or number[3]:
            self._builder.scalar(float(number[0]), position)
        else:
            self._builder.scalar(int(number[0]), position)

    def _skip_blank(self) -> None:
        found = _BLANK.match(self._text, self._offset)
        if found is not None:
            self._offset = found.end()

    def _position(self, offset: int) -> Position:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def _stop(self, message: str) -> NoReturn:
        found = self._text[self._offset : self._offset + 20].split("\n")[0]
        near = f", found `{shorten(found)}`" if found.strip() else ""
        self._builder.stop("invalid_json", f"invalid JSON: {message}{near}", self._position(self._offset))
