"""From what a handler returns to exact JSON.

Plain JSON passes as it is. Everything else that has an obvious JSON form is converted: msgspec structs, dataclasses,
attrs classes, TypedDicts, tuples and named tuples, sets, deques, enums (their values), dates and times (RFC 3339),
timedeltas (ISO 8601), Decimals and UUIDs (text), bytes (base64), and subclasses of text and numbers (as those of
numpy). Keys that are numbers, dates, enums and the like become text, as JSON wants it. A return annotation is not
checked.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from ductor.actors.errors import ResultNotEncodableError
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_VALUE_DEPTH, StoredValue, admitted_value
from ductor.journal.errors import ValueRefusedError

_PLAIN = frozenset({str, int, float, bool, type(None)})
_WHAT = "result"


class _NotPlainError(Exception):
    """A part of the result has no JSON form. `path` grows from that part outwards."""

    def __init__(self, value: object, reason: str) -> None:
        self.python_type, self.reason, self.path = _type_name(value), reason, ""


def json_of_result(task: str, result: object) -> JsonValue:
    """The result as JSON, a copy. Raises ResultNotEncodableError."""
    return stored_result(task, result).value


def stored_result(task: str, result: object) -> StoredValue:
    """The result as JSON, a copy that the handler can't change any more, and what an event carries of it.

    Raises ResultNotEncodableError.
    """
    try:
        return admitted_value(result, _WHAT)
    except ValueRefusedError:
        pass  # not plain JSON yet, or never
    try:
        plain = _plain(result, MAX_VALUE_DEPTH)
    except _NotPlainError as error:
        path = error.path.removeprefix(".")
        raise ResultNotEncodableError(task, path, error.python_type, error.reason) from None
    try:
        return admitted_value(plain, _WHAT)
    except ValueRefusedError as error:
        raise ResultNotEncodableError(task, error.path, _type_at(plain, error.path), error.reason) from None


def _plain(value: object, depth_left: int) -> object:
    if type(value) in _PLAIN:
        return value
    if depth_left == 0:
        raise _NotPlainError(value, f"it is nested deeper than {MAX_VALUE_DEPTH} levels, or contains itself")
    if isinstance(value, Enum):
        return _plain(value.value, depth_left - 1)
    if isinstance(value, Mapping):
        return _plain_object(value, depth_left - 1)
    if isinstance(value, list | tuple | set | frozenset | deque):
        return _plain_list(value, depth_left - 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return _plain_object_of_class(value, depth_left)


def _plain_object(entries: Mapping[object, object], depth_left: int) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key, item in entries.items():
        name = _plain_key(key)
        if name in plain:
            raise _NotPlainError(entries, f"two of its keys become the same text {name!r}")
        try:
            plain[name] = _plain(item, depth_left)
        except _NotPlainError as error:
            error.path = f".{name}{error.path}"
            raise
    return plain


def _plain_list(items: Iterable[object], depth_left: int) -> list[object]:
    plain: list[object] = []
    for index, item in enumerate(items):
        try:
            plain.append(_plain(item, depth_left))
        except _NotPlainError as error:
            error.path = f"[{index}]{error.path}"
            raise
    return plain


def _plain_key(key: object) -> str:
    if isinstance(key, str) and not isinstance(key, Enum):
        return str.__str__(key)
    try:
        (name,) = msgspec.to_builtins({key: None}, str_keys=True)
    except (TypeError, ValueError):
        raise _NotPlainError(key, "a key of this type has no JSON form") from None
    return str(name)


def _plain_object_of_class(value: object, depth_left: int) -> object:
    try:
        built = msgspec.to_builtins(value)
    except RecursionError:
        raise _NotPlainError(value, "it is nested too deep, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as error:
        _find_offender(value, depth_left - 1)
        raise _NotPlainError(value, f"it has no JSON form ({error}); return plain values or a msgspec struct") from None
    return built if type(built) in _PLAIN else _plain(built, depth_left - 1)


def _find_offender(value: object, depth_left: int) -> None:
    """Raise for the field of a struct or dataclass that has no JSON form, so that the error names it."""
    names: Iterable[str] = getattr(value, "__struct_fields__", ()) or getattr(value, "__dataclass_fields__", ())
    _plain_object({name: getattr(value, name, None) for name in names}, depth_left)


def _type_at(value: object, path: str) -> str:
    """The type at a path of keys and indexes, as far as its keys are plain words."""
    for part in path.replace("]", "").replace("[", ".").split("."):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal():
            value = value[int(part)]
    return _type_name(value)


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
