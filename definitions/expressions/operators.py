"""What the operators do: arithmetic, comparison, equality, membership, selection.

JSON does not tell 150 from 150.0 on purpose, so numbers compute and compare across int and double: a mixed operation
gives a double. Unsigned integers compare with the others and compute among themselves only, as in CEL.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import NoReturn

from ductor.definitions.expressions.budget import MAX_VALUE_DEPTH, Meter
from ductor.definitions.expressions.cel_values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    Uint,
    Value,
    type_name,
)
from ductor.definitions.expressions.errors import BudgetFault, Fault

NUMBERS = frozenset((int, float, Uint))
ORDERED = frozenset((bool, str, bytes, Timestamp, Duration))
_SCALARS = frozenset((type(None), bool, str, bytes, Timestamp, Duration))
_DURATION_LIMIT_NS = 315_576_000_000 * 10**9
_TIMESTAMP_MIN_NS = -62_135_596_800 * 10**9
_TIMESTAMP_MAX_NS = 253_402_300_800 * 10**9 - 1


def no_overload(name: str, *operands: Value) -> NoReturn:
    """Refuse operands of these types."""
    types = ", ".join(type_name(operand) for operand in operands)
    raise Fault("no_such_overload", f"{name} does not take ({types})")


def checked_int(value: int) -> int:
    """A signed integer, refused beyond 64 bits."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise Fault("overflow", f"the integer {_shown(value)} needs more than 64 bits")


def checked_uint(value: int) -> Uint:
    """An unsigned integer, refused when negative or beyond 64 bits."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise Fault("overflow", f"{_shown(value)} does not fit an unsigned 64-bit integer")


def _shown(value: int) -> str:
    return str(value) if value.bit_length() < 256 else f"of {value.bit_length()} bits"


def checked_timestamp(nanoseconds: int) -> Timestamp:
    """An instant, refused before year 1 or after year 9999."""
    if _TIMESTAMP_MIN_NS <= nanoseconds <= _TIMESTAMP_MAX_NS:
        return Timestamp(nanoseconds)
    raise Fault("overflow", "the timestamp lies outside the years 1 to 9999")


def checked_duration(nanoseconds: int) -> Duration:
    """A length of time, refused beyond 10,000 years."""
    if abs(nanoseconds) <= _DURATION_LIMIT_NS:
        return Duration(nanoseconds)
    raise Fault("overflow", "the duration is longer than 10,000 years")


def _to_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise Fault("overflow", f"the integer {_shown(value)} does not fit a double") from None


def _numeric(symbol: str, left: Value, right: Value, compute: Callable[[Value, Value], Value]) -> Value:
    """The result of `compute` for two numbers, in the type the language gives it."""
    left_type, right_type = type(left), type(right)
    if left_type is float and right_type is float:
        return compute(left, right)
    if left_type is right_type:
        if left_type is int:
            return checked_int(compute(left, right))
        if left_type is Uint:
            return checked_uint(compute(int(left), int(right)))
    elif left_type is float and right_type is int:
        return compute(left, _to_double(right))
    elif left_type is int and right_type is float:
        return compute(_to_double(left), right)
    return no_overload(symbol, left, right)


def add(left: Value, right: Value, meter: Meter) -> Value:
    """`left + right`."""
    left_type, right_type = type(left), type(right)
    if left_type in NUMBERS:
        return _numeric("+", left, right, operator.add)
    if left_type is right_type:
        if left_type is str or left_type is bytes:
            meter.make_text(len(left) + len(right))
            return left + right
        if left_type is list:
            meter.make_list(len(left) + len(right))
            return left + right
        if left_type is Duration:
            return checked_duration(left.nanoseconds + right.nanoseconds)
    if {left_type, right_type} == {Timestamp, Duration}:
        return checked_timestamp(left.nanoseconds + right.nanoseconds)
    return no_overload("+", left, right)


def subtract(left: Value, right: Value, meter: Meter) -> Value:
    """`left - right`."""
    left_type, right_type = type(left), type(right)
    if left_type in NUMBERS:
        return _numeric("-", left, right, operator.sub)
    if left_type is right_type and (left_type is Timestamp or left_type is Duration):
        return checked_duration(left.nanoseconds - right.nanoseconds)
    if left_type is Timestamp and right_type is Duration:
        return checked_timestamp(left.nanoseconds - right.nanoseconds)
    return no_overload("-", left, right)


def multiply(left: Value, right: Value, meter: Meter) -> Value:
    """`left * right`."""
    return _numeric("*", left, right, operator.mul)


def divide(left: Value, right: Value, meter: Meter) -> Value:
    """`left / right`; integers are cut toward zero, doubles follow IEEE 754."""
    return _numeric("/", left, right, _quotient)


def _quotient(left: Value, right: Value) -> Value:
    if type(left) is not float:
        if right == 0:
            raise Fault("division_by_zero", "division by zero")
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    if right == 0.0:
        return (
            math.nan if left == 0.0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1.0, right)
        )
    return left / right


def modulo(left: Value, right: Value, meter: Meter) -> Value:
    """`left % right` of integers; the result has the sign of `left`."""
    if type(left) is float or type(right) is float:
        no_overload("%", left, right)
    return _numeric("%", left, right, _remainder)


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise Fault("division_by_zero", "remainder of a division by zero")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def negate(operand: Value) -> Value:
    """`-operand`."""
    if type(operand) is int:
        return checked_int(-operand)
    if type(operand) is float:
        return -operand
    return no_overload("-", operand)


def _comparable(left: Value, right: Value) -> tuple[Value, Value]:
    """Two numbers of different types in a form that compares: beside a double an integer counts as a double.

    CEL's runtimes do so, although it makes 2^53 + 1 equal to the double 2^53.
    """
    if type(left) is float:
        return left, _nearest_double(right)
    if type(right) is float:
        return _nearest_double(left), right
    return left, right


def _nearest_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def comparison(symbol: str, compare: Callable[[Value, Value], bool]) -> Callable[[Value, Value, Meter], bool]:
    """The operator `symbol` over numbers of any type and over two values of one ordered type."""

    def compared(left: Value, right: Value, meter: Meter) -> bool:
        left_type = type(left)
        if left_type in NUMBERS:
            right_type = type(right)
            if left_type is right_type:
                return compare(left, right)
            if right_type in NUMBERS:
                return compare(*_comparable(left, right))
        elif left_type is type(right) and left_type in ORDERED:
            if left_type is str or left_type is bytes:
                meter.charge_text(min(len(left), len(right)))
            return compare(left, right)
        return no_overload(symbol, left, right)

    return compared


less = comparison("<", operator.lt)
less_or_equal = comparison("<=", operator.le)
greater = comparison(">", operator.gt)
greater_or_equal = comparison(">=", operator.ge)


def equal(left: Value, right: Value, meter: Meter, depth: int = MAX_VALUE_DEPTH) -> bool:
    """`left == right`: numbers by value, lists and maps item by item; different types are unequal."""
    left_type, right_type = type(left), type(right)
    if left_type is not right_type:
        return left_type in NUMBERS and right_type in NUMBERS and operator.eq(*_comparable(left, right))
    if left_type is list or left_type is dict:
        return _equal_containers(left, right, meter, depth)
    if left_type is str or left_type is bytes:
        if len(left) != len(right):
            return False
        meter.charge_text(len(left))
    return bool(left == right)


def _equal_containers(left: Value, right: Value, meter: Meter, depth: int) -> bool:
    if depth == 0:
        raise BudgetFault(f"the compared values nest deeper than {MAX_VALUE_DEPTH}")
    if len(left) != len(right):
        return False
    meter.charge(2 * len(left))
    if type(left) is list:
        return all(equal(one, other, meter, depth - 1) for one, other in zip(left, right, strict=True))
    return all(key in right and equal(item, right[key], meter, depth - 1) for key, item in left.items())


def not_equal(left: Value, right: Value, meter: Meter) -> bool:
    """`left != right`."""
    return not equal(left, right, meter)


def contains(item: Value, container: Value, meter: Meter) -> bool:
    """`item in container`: an item of a list, or a key of a map."""
    if type(container) is list:
        meter.charge(len(container))
        return any(equal(item, other, meter) for other in container)
    if type(container) is dict:
        return find_key(container, item) is not None
    return no_overload("in", item, container)


def find_key(mapping: dict[Value, Value], key: Value) -> tuple[Value] | None:
    """The value under a key, in a tuple, or None; numbers find equal numbers, a bool finds a bool only."""
    kind = type(key)
    if kind is str:
        return (mapping[key],) if key in mapping else None
    if kind is bool or kind in NUMBERS:
        for own, value in mapping.items():
            alike = type(own) is kind or (type(own) in NUMBERS and kind in NUMBERS)
            if alike and operator.eq(*_comparable(own, key)):
                return (value,)
    elif kind not in _SCALARS:
        no_overload("in", key, mapping)
    return None


def select(operand: Value, field: str) -> Value:
    """`operand.field`, also spelled `operand["field"]`."""
    if isinstance(operand, Mapping):
        if field in operand:
            return operand[field]
        raise Fault(
            "missing_key",
            f"there is no key {field!r}",
            key=field,
            available=operand,
        )
    if operand is None:
        raise Fault("missing_key", f"there is no key {field!r} in null", key=field)
    raise Fault("no_such_overload", f"{_article(operand)} has no key {field!r}; only a map has keys")


def index(operand: Value, key: Value) -> Value:
    """`operand[key]`."""
    if type(key) is str:
        return select(operand, key)
    if type(operand) is list:
        return _item(operand, key)
    if operand is None:
        raise Fault("missing_key", f"there is no item {key!r} in null", key=key if type(key) is int else str(key))
    if type(operand) is dict:
        found = find_key(operand, key)
        if found is None:
            raise Fault("missing_key", f"there is no key {key!r}", key=key if type(key) is int else str(key))
        return found[0]
    return no_overload("[]", operand, key)


def _item(items: list[Value], key: Value) -> Value:
    if type(key) not in NUMBERS or (type(key) is float and not key.is_integer()):
        no_overload("[]", items, key)
    position = int(key)
    if 0 <= position < len(items):
        return items[position]
    message = f"there is no item {_shown(position)} in a list of {len(items)}"
    raise Fault("index_out_of_range", message, key=position)


def _article(value: Value) -> str:
    name = type_name(value)
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
