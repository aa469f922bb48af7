"""Python values as the tree of a document."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import NoReturn

from ductor.definitions.documents.nodes import NOWHERE, Node
from ductor.definitions.documents.tree import TreeBuilder
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.errors import Problem
from ductor.definitions.limits import Limits


def read_python(document: Mapping[str, object], limits: Limits, problems: list[Problem]) -> Node:
    """Return the tree of a document made of maps, lists, tuples, text, numbers, booleans and None.

    A `timedelta` stands for its duration as text.

    Raises:
        DefinitionError: it holds something else, or passes a limit.
    """
    builder = TreeBuilder(limits, "", problems)
    stack: list[Iterator[object]] = [iter((document,))]
    while stack:
        try:
            value = next(stack[-1])
        except StopIteration:
            stack.pop()
            if stack:
                builder.close()
            continue
        if isinstance(value, _Pair):
            builder.key(value.key, NOWHERE)
            value = value.value
        opened = _add(value, builder)
        if opened is not None:
            stack.append(opened)
    if builder.root is None:
        raise AssertionError("a document gives a root")
    return builder.root


class _Pair:
    """A key and its value."""

    __slots__ = ("key", "value")

    def __init__(self, key: str, value: object) -> None:
        self.key = key
        self.value = value


def _add(value: object, builder: TreeBuilder) -> Iterator[object] | None:
    """Add a value; gives what it holds, if anything."""
    if value is None or isinstance(value, (bool, int, float, str)):
        builder.scalar(value, NOWHERE)
        return None
    if isinstance(value, timedelta):
        builder.scalar(_duration_text(value), NOWHERE)
        return None
    if isinstance(value, Mapping):
        builder.open_map(NOWHERE)
        return iter([_Pair(_key(key, builder), item) for key, item in value.items()])
    if isinstance(value, (list, tuple)):
        builder.open_list(NOWHERE)
        return iter(value)
    return _refuse(f"a {type(value).__name__} is no JSON value", builder)


def _duration_text(value: timedelta) -> str:
    return format_duration_ms(value // timedelta(milliseconds=1))


def _key(key: object, builder: TreeBuilder) -> str:
    if not isinstance(key, str):
        _refuse(f"the key {key!r} is not text", builder)
    return key


def _refuse(message: str, builder: TreeBuilder) -> NoReturn:
    builder.stop("not_json", message, NOWHERE, "Use maps with text keys, lists, text, numbers, booleans and None.")
