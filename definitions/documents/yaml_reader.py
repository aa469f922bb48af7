"""YAML 1.2 text as trees.

The events come from PyYAML's binding of libyaml (its Python parser where libyaml is absent); everything that decides
what a text means is here: the core schema of YAML 1.2 for plain scalars (so `on`, `no`, `010` and `12:30:00` are what
they look like), keys, tags, aliases and limits. What YAML 1.1 and 1.2 read differently, and what JSON can't carry, is
refused.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from ductor.definitions.documents.nodes import Node, Position, shorten
from ductor.definitions.documents.tree import TreeBuilder
from ductor.definitions.errors import Problem
from ductor.definitions.limits import Limits

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_OTHER_LINE_BREAK: Final = re.compile("[\x85\u2028\u2029]")
_NUMBER_DIGITS_MAX: Final = 400
"""A number with more characters is not worth converting: it is out of range."""

_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_PLAIN_STYLES: Final = frozenset({"", None})
_NUMBER_STARTS: Final = frozenset("+-.0123456789")
_KEY: Final = "key"
_VALUE: Final = "value"
_ITEM: Final = "item"
_COMMON_SLIPS: Final = {
    "mapping values are not allowed": "Put text that holds `: ` in quotes, and indent with care.",
    "cannot start any token": "Indent with blanks, not tabs; quote text that begins with @ or `.",
    "did not find expected key": "Check quotes, commas and the indentation of this line and the one before.",
    "could not find expected ':'": "Check quotes and the indentation of this line and the one before.",
}


def read_yaml(text: str, limits: Limits, file: str, problems: list[Problem]) -> Iterator[Node]:
    """Yield the tree of each document of a text; empty documents are passed over.

    Raises:
        DefinitionError: the text can't be read; what could be read in spite of it is in `problems`.
    """
    builder = TreeBuilder(limits, file, problems)
    found = _OTHER_LINE_BREAK.search(text)
    if found is not None:
        hint = 'Write it as an escape within double quotes: "\\N", "\\L" or "\\P".'
        builder.stop(
            "line_break", f"U+{ord(found[0]):04X} is no line break in YAML 1.2", _at(text, found.start()), hint
        )
    try:
        yield from _documents(text, builder)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        said = error.problem or "the text is no YAML"
        hint = next((advice for slip, advice in _COMMON_SLIPS.items() if slip in said), "")
        builder.stop("invalid_yaml", f"invalid YAML: {said}", position, hint)
    except yaml.reader.ReaderError as error:
        builder.stop("invalid_character", f"invalid YAML: {error.reason}", _at(text, error.position))


def _at(text: str, offset: int) -> Position:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def _documents(text: str, builder: TreeBuilder) -> Iterator[Node]:
    loader = _LOADER(text)
    try:
        composer = _Composer(builder)
        while loader.check_event():
            event = loader.get_event()
            kind = type(event)
            if kind is yaml.ScalarEvent:
                composer.scalar(event)
            elif kind is yaml.MappingStartEvent:
                composer.open(event, is_map=True)
            elif kind is yaml.SequenceStartEvent:
                composer.open(event, is_map=False)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                composer.close()
            elif kind is yaml.AliasEvent:
                composer.alias(event)
            elif kind is yaml.DocumentStartEvent:
                builder.start_document()
            elif kind is yaml.DocumentEndEvent and builder.root is not None and builder.root.value is not None:
                yield builder.root
    finally:
        loader.dispose()


class _Composer:
    """Turns events into calls of the tree builder. `_expected` holds, for each open value, what comes next in it."""

    def __init__(self, builder: TreeBuilder) -> None:
        self._builder = builder
        self._expected = [_ITEM]

    def scalar(self, event: Any) -> None:
        """A key or a value."""
        mark = event.start_mark
        position = mark.line + 1, mark.column + 1
        if self._expected[-1] is _KEY:
            self._key(event, position)
            self._expected[-1] = _VALUE
            return
        if self._expected[-1] is _VALUE:
            self._expected[-1] = _KEY
        self._builder.scalar(self._resolve(event, position), position, event.anchor)

    def open(self, event: Any, *, is_map: bool) -> None:
        """A map or a list begins."""
        position = self._take_turn(event)
        if event.tag not in (None, "!", f"{_TAG_PREFIX}{'map' if is_map else 'seq'}"):
            self._refuse_tag(event)
        begin = self._builder.open_map if is_map else self._builder.open_list
        begin(position, event.anchor)
        self._expected.append(_KEY if is_map else _ITEM)

    def close(self) -> None:
        """The innermost map or list ends."""
        self._expected.pop()
        self._builder.close()

    def alias(self, event: Any) -> None:
        """A value is repeated."""
        self._builder.alias(str(event.anchor), self._take_turn(event))

    def _take_turn(self, event: Any) -> Position:
        """A value that is no scalar comes; where a key must stand that is an error."""
        position = _position(event)
        if self._expected[-1] is _KEY:
            self._builder.stop("key_not_text", "a key must be text", position, "Put the key in quotes.")
        if self._expected[-1] is _VALUE:
            self._expected[-1] = _KEY
        return position

    def _key(self, event: Any, position: Position) -> None:
        text: str = event.value
        if event.anchor is not None:
            self._builder.report("anchor_on_key", "a key can't carry an anchor", position, "Put it on the value.")
        if text == "<<" and event.style in _PLAIN_STYLES:
            hint = "Use `defaults`, or an anchor on the whole value."
            self._builder.report("merge_key", "merge keys (`<<`) are not part of YAML 1.2", position, hint)
        elif not isinstance(self._resolve(event, position), str):
            hint = f'Put it in quotes: "{shorten(text)}".'
            self._builder.report("key_not_text", f"the key `{shorten(text)}` is not text", position, hint)
        self._builder.key(text, position)

    def _resolve(self, event: Any, position: Position) -> bool | int | float | str | None:
        text: str = event.value
        tag = event.tag
        if tag is None:
            if event.style not in _PLAIN_STYLES:
                return text
        elif tag in ("!", f"{_TAG_PREFIX}str"):
            return text
        else:
            self._refuse_tag(event)
        if text[:1] in _NUMBER_STARTS and text:
            return self._number(text, position)
        if text in _NULL:
            return None
        return _BOOLEAN.get(text, text)

    def _number(self, text: str, position: Position) -> int | float | str:
        whole, fractional = _INTEGER.fullmatch(text), _FLOAT.fullmatch(text)
        if _NOT_FINITE.fullmatch(text) or ((whole or fractional) and len(text) > _NUMBER_DIGITS_MAX):
            self._builder.report_number(text, position)
            return 0
        if whole:
            return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
        return float(text) if fractional else text

    def _refuse_tag(self, event: Any) -> None:
        tag = str(event.tag).replace(_TAG_PREFIX, "!!")
        self._builder.report(
            "unknown_tag", f"the tag `{shorten(tag)}` has no meaning here", _position(event), "Leave it out."
        )


def _position(event: Any) -> Position:
    return event.start_mark.line + 1, event.start_mark.column + 1
