"""CEL's own functions: sizes, text tests, conversions, types."""

import math
import re

from ductor.definitions.durations import (
    TimeFormatError,
    format_duration_ns,
    format_timestamp_ns,
    parse_duration_ns,
    parse_timestamp_ns,
)
from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.cel_values import (
    TYPE_NAMES,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    integer_text,
    type_name,
)
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.functions.declared import Function
from ductor.definitions.expressions.functions.patterns import search
from ductor.definitions.expressions.operators import (
    checked_duration,
    checked_int,
    checked_timestamp,
    checked_uint,
    no_overload,
)

UNITS_PER_TIME_TEXT = 25
"""What it costs to read a timestamp or a duration."""
MAX_NUMBER_LENGTH = 400
"""Characters of a text that is read as a number."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)", re.IGNORECASE
)
_BOOLEANS = dict.fromkeys(("1", "t", "true", "TRUE", "True"), True)
_BOOLEANS |= dict.fromkeys(("0", "f", "false", "FALSE", "False"), False)
_SECOND = 10**9


def size(meter: Meter, value: Value) -> int:
    """The characters of a text, bytes, items of a list, keys of a map."""
    if type(value) in (str, bytes, list, dict):
        return len(value)
    return no_overload("size()", value)


def _texts(name: str, meter: Meter, *values: Value) -> None:
    for value in values:
        if type(value) is not str:
            no_overload(f"{name}()", *values)
        meter.charge_text(len(value))


def contains(meter: Meter, text: Value, part: Value) -> bool:
    """Whether `part` stands in `text`."""
    _texts("contains", meter, text, part)
    return part in text


def starts_with(meter: Meter, text: Value, part: Value) -> bool:
    """Whether `text` begins with `part`."""
    _texts("startsWith", meter, text, part)
    return bool(text.startswith(part))


def ends_with(meter: Meter, text: Value, part: Value) -> bool:
    """Whether `text` ends with `part`."""
    _texts("endsWith", meter, text, part)
    return bool(text.endswith(part))


def matches(meter: Meter, text: Value, pattern: Value) -> bool:
    """Whether an RE2 pattern is found in `text`."""
    _texts("matches", meter, text, pattern)
    return search(meter, text, pattern) is not None


def to_int(meter: Meter, value: Value) -> int:
    """A number cut toward zero, a text of digits, or the seconds of a timestamp."""
    kind = type(value)
    if kind is int or kind is Uint:
        return checked_int(int(value))
    if kind is float:
        return checked_int(_cut(value))
    if kind is str:
        return checked_int(_integer_of(value, "int"))
    if kind is Timestamp:
        return int(value.nanoseconds // _SECOND)
    return no_overload("int()", value)


def to_uint(meter: Meter, value: Value) -> Uint:
    """A number that is not negative, cut toward zero, or a text of digits."""
    kind = type(value)
    if kind is int or kind is Uint:
        return checked_uint(int(value))
    if kind is float:
        return checked_uint(_cut(value))
    if kind is str:
        return checked_uint(_integer_of(value, "uint"))
    return no_overload("uint()", value)


def _cut(value: float) -> int:
    try:
        whole = int(value)
    except (OverflowError, ValueError):
        raise Fault("overflow", f"{value} does not fit an integer") from None
    if value in (9.223372036854775807e18, -9.223372036854775808e18):
        raise Fault("overflow", f"{value} stands for integers on both sides of the limit of 64 bits")
    return whole


def _integer_of(text: str, name: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH or not _INTEGER.fullmatch(text):
        raise Fault("invalid_argument", f"{name}() can't read {text[:MAX_NUMBER_LENGTH]!r} as an integer")
    return int(text)


def to_double(meter: Meter, value: Value) -> float:
    """A number, or a text that is one."""
    kind = type(value)
    if kind is float:
        return float(value)
    if kind is int or kind is Uint:
        try:
            return float(value)
        except OverflowError:
            raise Fault("overflow", "the integer does not fit a double") from None
    if kind is str:
        if len(value) <= MAX_NUMBER_LENGTH and _DOUBLE.fullmatch(value):
            return float(value)
        raise Fault("invalid_argument", f"double() can't read {value[:MAX_NUMBER_LENGTH]!r} as a number")
    return no_overload("double()", value)


def to_bool(meter: Meter, value: Value) -> bool:
    """A bool, or one of the texts `true`, `false`, `t`, `f`, `1`, `0`."""
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in _BOOLEANS:
            return _BOOLEANS[value]
        raise Fault("invalid_argument", f"bool() can't read {value[:MAX_NUMBER_LENGTH]!r} as true or false")
    return no_overload("bool()", value)


def to_string(meter: Meter, value: Value) -> str:
    """The text of a scalar."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return integer_text(value)
    if kind is float:
        return double_text(value)
    if kind is Timestamp:
        return format_timestamp_ns(value.nanoseconds)
    if kind is Duration:
        return format_duration_ns(value.nanoseconds)
    if kind is bytes:
        meter.make_text(len(value))
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise Fault("invalid_argument", "string() got bytes that are not UTF-8") from None
    return no_overload("string()", value)


def double_text(value: float) -> str:
    """The shortest text of a double, with an exponent below 1e-4 and from 1e6 on, as CEL's runtimes write it."""
    text = repr(value)
    if not math.isfinite(value):
        return text
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent_text = text.lstrip("-").partition("e")
    whole, _, decimals = mantissa.partition(".")
    digits = (whole + decimals).lstrip("0")
    if not digits:
        return f"{sign}0"
    exponent = int(exponent_text or "0") + len(whole) - 1
    if whole == "0":
        exponent -= len(whole + decimals) - len(digits)
    digits = digits.rstrip("0")
    if -4 <= exponent < 6:
        return sign + _positional(digits, exponent)
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def to_bytes(meter: Meter, value: Value) -> bytes:
    """The UTF-8 of a text."""
    if type(value) is bytes:
        return value
    if type(value) is str:
        meter.make_text(len(value))
        return value.encode("utf-8", "surrogatepass")
    return no_overload("bytes()", value)


def _unreadable(error: TimeFormatError) -> Fault:
    return Fault("invalid_argument", f"{error.text!r} {error.message}", advice=error.hint)


def to_timestamp(meter: Meter, value: Value) -> Timestamp:
    """An RFC 3339 text with an offset, or seconds since 1970."""
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        return checked_timestamp(value * _SECOND)
    if type(value) is str:
        meter.charge(UNITS_PER_TIME_TEXT)
        try:
            return checked_timestamp(parse_timestamp_ns(value))
        except TimeFormatError as error:
            raise _unreadable(error) from None
    return no_overload("timestamp()", value)


def to_duration(meter: Meter, value: Value) -> Duration:
    """A text such as `90s`, `1h30m`, `7d` or `PT30S`."""
    if type(value) is Duration:
        return value
    if type(value) is str:
        meter.charge(UNITS_PER_TIME_TEXT)
        try:
            return checked_duration(parse_duration_ns(value))
        except TimeFormatError as error:
            raise _unreadable(error) from None
    return no_overload("duration()", value)


def type_of(meter: Meter, value: Value) -> TypeValue:
    """The type of a value, to be compared with `int`, `string`, `list` and so on."""
    return TypeValue(type_name(value))


def dyn(meter: Meter, value: Value) -> Value:
    """The value itself; CEL has it for its type checker."""
    return value


STANDARD_FUNCTIONS = (
    Function(name="size", implementation=size, least=1, most=1),
    Function(name="contains", implementation=contains, least=2, most=2, style="method"),
    Function(name="startsWith", implementation=starts_with, least=2, most=2, style="method"),
    Function(name="endsWith", implementation=ends_with, least=2, most=2, style="method"),
    Function(name="matches", implementation=matches, least=2, most=2),
    Function(name="int", implementation=to_int, least=1, most=1, style="function"),
    Function(name="uint", implementation=to_uint, least=1, most=1, style="function"),
    Function(name="double", implementation=to_double, least=1, most=1, style="function"),
    Function(name="bool", implementation=to_bool, least=1, most=1, style="function"),
    Function(name="string", implementation=to_string, least=1, most=1, style="function"),
    Function(name="bytes", implementation=to_bytes, least=1, most=1, style="function"),
    Function(name="timestamp", implementation=to_timestamp, least=1, most=1, style="function"),
    Function(name="duration", implementation=to_duration, least=1, most=1, style="function"),
    Function(name="type", implementation=type_of, least=1, most=1, style="function"),
    Function(name="dyn", implementation=dyn, least=1, most=1, style="function"),
)
TYPE_CONSTANTS = frozenset(TYPE_NAMES.values())
"""Names that stand for types, as in `type(x) == string`."""
