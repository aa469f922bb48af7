"""Values and the types of cel-python, there and back.

Its constructors guess at what they are given and cost microseconds; a value whose type is known is put into its type
directly. Times have microseconds there and nanoseconds here, so one that would be cut is refused.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from celpy.celtypes import (
    BoolType,
    BytesType,
    DoubleType,
    DurationType,
    IntType,
    ListType,
    MapType,
    StringType,
    TimestampType,
    UintType,
)

from ductor.definitions.expressions.cel_values import Duration, Timestamp, Uint, Value

# One of the types above or None; told apart by `type(value)`, as a `Value` is.
CelValue: TypeAlias = Any

TRUE, FALSE = BoolType(True), BoolType(False)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NANOSECONDS = 1_000


class Refused(Exception):
    """cel-python can't go on with a value; the portable engine must. It is never absorbed as a failure is."""


def to_cel(value: Value) -> CelValue:
    """A value in the type cel-python has for it.

    Raises:
        Refused: it has none, or does not hold this value.
    """
    convert = _TO_CEL.get(type(value))
    if convert is None:
        raise Refused(type(value).__name__)
    return convert(value)


def from_cel(value: CelValue) -> Value:
    """The value that cel-python's value stands for, in types of our own only.

    Raises:
        Refused: it is none, as an error that stayed in a list.
    """
    convert = _FROM_CEL.get(type(value))
    if convert is None:
        raise Refused(type(value).__name__)
    return convert(value)


def _map_to_cel(value: dict[Value, Value]) -> MapType:
    result = MapType()
    for key, item in value.items():
        if type(key) is not str:
            raise Refused("keys that are no texts")
        result[str.__new__(StringType, key)] = to_cel(item)
    return result


def _microseconds(nanoseconds: int) -> timedelta:
    if nanoseconds % _NANOSECONDS:
        raise Refused("nanoseconds")
    return (nanoseconds // _NANOSECONDS) * _MICROSECOND


_TO_CEL: dict[type, Callable[[Value], CelValue]] = {
    type(None): lambda value: None,
    bool: lambda value: TRUE if value else FALSE,
    int: lambda value: int.__new__(IntType, value),
    Uint: lambda value: int.__new__(UintType, value),
    float: lambda value: float.__new__(DoubleType, value),
    str: lambda value: str.__new__(StringType, value),
    bytes: lambda value: bytes.__new__(BytesType, value),
    list: lambda value: ListType(map(to_cel, value)),
    dict: _map_to_cel,
    Timestamp: lambda value: TimestampType(_EPOCH + _microseconds(value.nanoseconds)),
    Duration: lambda value: DurationType(_microseconds(value.nanoseconds)),
}

_FROM_CEL: dict[type, Callable[[CelValue], Value]] = {
    type(None): lambda value: None,
    BoolType: bool,
    IntType: int.__int__,
    UintType: lambda value: Uint(int.__int__(value)),
    DoubleType: float.__float__,
    StringType: str.__str__,
    BytesType: bytes,
    ListType: lambda value: [from_cel(item) for item in value],
    MapType: lambda value: {from_cel(key): from_cel(item) for key, item in value.items()},
    TimestampType: lambda value: Timestamp((value - _EPOCH) // _MICROSECOND * _NANOSECONDS),
    DurationType: lambda value: Duration(value // _MICROSECOND * _NANOSECONDS),
}
