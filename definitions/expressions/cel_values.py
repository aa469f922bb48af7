"""The values an expression computes with, and their way to JSON.

JSON values are themselves: None, bool, int, float, str, list, dict. Beside them stand unsigned integers, bytes,
timestamps, durations and types. Lists and dicts are never changed once made, so values are shared, not copied.
"""

import base64
import math
from functools import total_ordering
from typing import Any, TypeAlias

from ductor.definitions.durations import format_duration_ns, format_timestamp_ns
from ductor.definitions.expressions.budget import MAX_RESULT_COST, MAX_VALUE_DEPTH, Meter
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.values import JsonValue

# A value is one of a closed set of run-time types; operators tell them apart by `type(value)`, as the JSON type does.
Value: TypeAlias = Any

MAX_INTEGER_BITS = 4_096
"""Bits of an integer that is written as text; JSON sets integers no limit."""
INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned integer, made by `1u` or `uint(...)`; JSON integers are signed."""

    __slots__ = ()


@total_ordering
class Timestamp:
    """An instant, in nanoseconds since 1970-01-01T00:00:00Z."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: "Timestamp") -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Timestamp({format_timestamp_ns(self.nanoseconds)})"


@total_ordering
class Duration:
    """A length of time, in nanoseconds."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int) -> None:
        self.nanoseconds = nanoseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __lt__(self, other: "Duration") -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({format_duration_ns(self.nanoseconds)})"


class TypeValue:
    """What `type(x)` gives; equal by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"TypeValue({self.name})"


TYPE_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
}


_KEYS = frozenset((str, bool, int, Uint))
_JSON_SCALARS = frozenset((type(None), bool, int, float, str))


def type_name(value: Value) -> str:
    """The name CEL has for the type of a value, as `double`."""
    return TYPE_NAMES[type(value)]


def is_plain_json(value: Value, meter: Meter | None = None) -> bool:
    """Whether a value is JSON as it stands; its size is charged to `meter`, or to the budget of a result.

    Raises:
        BudgetFault: it is too large or nests too deep for the result of an expression. Values are shared while an
            expression computes, so a small expression can make a result that is immense once written out.
    """
    return _is_plain(value, meter or Meter(MAX_RESULT_COST), MAX_VALUE_DEPTH)


def _is_plain(value: Value, meter: Meter, depth: int) -> bool:
    kind = type(value)
    if kind is str:
        meter.charge_text(len(value))
        return True
    if kind is int or kind is bool or value is None:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is not list and kind is not dict:
        return False
    if depth == 0:
        raise BudgetFault(f"the value nests deeper than {MAX_VALUE_DEPTH}")
    meter.charge(len(value))
    plain = kind is list or all(type(key) is str for key in value)
    # The whole is walked even when an item is not plain: the conversion that follows relies on the bounds.
    for item in value if kind is list else value.values():
        plain = _is_plain(item, meter, depth - 1) and plain
    return plain


def to_json(value: Value, meter: Meter | None = None) -> JsonValue:
    """The JSON of a value: timestamps as RFC 3339 text, durations as `90s`, bytes as base64 text.

    Its size is charged to `meter`, or to the budget of a result.

    Raises:
        Fault: `not_json` for NaN, an infinity, a type, or keys that become the same text; `budget` for a value that is
            too large.
    """
    return value if is_plain_json(value, meter) else _converted(value)


def _converted(value: Value) -> JsonValue:
    kind = type(value)
    if kind is list:
        return [_converted(item) for item in value]
    if kind is dict:
        return _converted_map(value)
    if kind is Timestamp:
        return format_timestamp_ns(value.nanoseconds)
    if kind is Duration:
        return format_duration_ns(value.nanoseconds)
    if kind is bytes:
        return base64.b64encode(value).decode("ascii")
    if kind is Uint:
        return int(value)
    if kind in _JSON_SCALARS and (kind is not float or math.isfinite(value)):
        scalar: JsonValue = value
        return scalar
    text = value.name if kind is TypeValue else value
    raise Fault("not_json", f"the value {text} ({TYPE_NAMES.get(kind, kind.__name__)}) has no form in JSON")


def integer_text(value: int) -> str:
    """The digits of an integer of reasonable size."""
    if value.bit_length() > MAX_INTEGER_BITS:
        raise Fault("overflow", f"an integer of {value.bit_length()} bits is too long to be written as text")
    return str(int(value))


def _converted_map(value: dict[Value, Value]) -> JsonValue:
    result: dict[str, JsonValue] = {}
    for key, item in value.items():
        if type(key) not in _KEYS:
            raise Fault("not_json", f"the key {key!r} has no form in JSON")
        text = key if type(key) is str else ("true" if key else "false") if type(key) is bool else integer_text(key)
        if text in result:
            raise Fault("duplicate_key", f"the result has two keys that are both {text!r} in JSON", key=text)
        result[text] = _converted(item)
    return result
