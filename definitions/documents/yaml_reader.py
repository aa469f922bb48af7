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
_BLOCK_STYLES: Final = frozenset({"", None})
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
            if isinstance(event, yaml.DocumentStartEvent):
                builder.start_document()
            elif isinstance(event, yaml.DocumentEndEvent):
                if builder.root is not None and builder.root.value is not None:
                    yield builder.root
            else:
                composer.feed(event)
    finally:
        loader.dispose()


class _Composer:
    """Turns events into calls of the tree builder. `_expects_key` tells, for each open map, what comes next."""

    def __init__(self, builder: TreeBuilder) -> None:
        self._builder = builder
        self._expects_key: list[bool] = []

    def feed(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event, is_map=isinstance(event, yaml.MappingStartEvent))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._expects_key.pop()
            self._builder.close()
        elif isinstance(event, yaml.AliasEvent):
            self._turn(event)
            self._builder.alias(str(event.anchor), _position(event))

    def _open(self, event: Any, *, is_map: bool) -> None:
        self._turn(event)
        if event.tag not in (None, "!", f"{_TAG_PREFIX}{'map' if is_map else 'seq'}"):
            self._refuse_tag(event)
        begin = self._builder.open_map if is_map else self._builder.open_list
        begin(_position(event), event.anchor)
        self._expects_key.append(is_map)

    def _turn(self, event: Any) -> None:
        """A value comes; where a key must stand that is an error."""
        if not self._builder.in_map:
            return
        if self._expects_key[-1]:
            self._builder.stop("key_not_text", "a key must be text", _position(event), "Put the key in quotes.")
        self._expects_key[-1] = True

    def _scalar(self, event: Any) -> None:
        position = _position(event)
        if self._builder.in_map and self._expects_key[-1]:
            self._key(event, position)
            return
        self._turn(event)
        self._builder.scalar(self._resolve(event, position), position, event.anchor)

    def _key(self, event: Any, position: Position) -> None:
        text = event.value
        if event.anchor is not None:
            self._builder.report("anchor_on_key", "a key can't carry an anchor", position, "Put it on the value.")
        if _is_plain(event) and text == "<<":
            hint = "Use `defaults`, or an anchor on the whole value."
            self._builder.report("merge_key", "merge keys (`<<`) are not part of YAML 1.2", position, hint)
        elif not isinstance(self._resolve(event, position), str):
            hint = f'Put it in quotes: "{shorten(text)}".'
            self._builder.report("key_not_text", f"the key `{shorten(text)}` is not text", position, hint)
        self._builder.key(text, position)
        self._expects_key[-1] = False

    def _resolve(self, event: Any, position: Position) -> bool | int | float | str | None:
        text: str = event.value
        if event.tag in ("!", f"{_TAG_PREFIX}str") or (event.tag is None and not _is_plain(event)):
            return text
        if event.tag is not None:
            self._refuse_tag(event)
        if text in _NULL:
            return None
        if text in _BOOLEAN:
            return _BOOLEAN[text]
        if text[0] not in "+-.0123456789":
            return text
        return self._number(text, position)

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


def _is_plain(event: Any) -> bool:
    return event.style in _BLOCK_STYLES


def _position(event: Any) -> Position:
    return event.start_mark.line + 1, event.start_mark.column + 1
