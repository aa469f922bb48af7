"""The library's functions of lists and maps."""

from typing import NoReturn

from ductor.definitions.expressions.budget import MAX_VALUE_DEPTH, Meter
from ductor.definitions.expressions.cel_values import Duration, Uint, Value
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.functions.declared import Function, Implementation
from ductor.definitions.expressions.functions.texts import integer_argument
from ductor.definitions.expressions.operators import NUMBERS, ORDERED, add, checked_int, less, no_overload, select


def _list_argument(name: str, meter: Meter, value: Value) -> list[Value]:
    if type(value) is not list:
        return no_overload(f"{name}()", value)
    meter.charge(len(value))
    return value


def _empty(name: str) -> NoReturn:
    raise Fault("invalid_argument", f"{name}() got an empty list; test size(...) > 0 first")


def total(meter: Meter, items: Value) -> Value:
    """The sum of numbers or of durations; 0 for an empty list."""
    result: Value = None
    for item in _list_argument("sum", meter, items):
        if type(item) not in NUMBERS and type(item) is not Duration:
            no_overload("sum()", item)
        result = item if result is None else add(result, item, meter)
    return 0 if result is None else result


def average(meter: Meter, items: Value) -> float:
    """The mean of numbers, a double."""
    numbers = _list_argument("avg", meter, items)
    for item in numbers:
        if type(item) not in NUMBERS:
            no_overload("avg()", item)
    if not numbers:
        _empty("avg")
    try:
        return float(sum(numbers)) / len(numbers)
    except OverflowError:
        raise Fault("overflow", "the sum of the numbers does not fit a double") from None


def smallest(meter: Meter, *values: Value) -> Value:
    """The least item of a list, or of several values."""
    items = _candidates("min", meter, values)
    result = items[0]
    for item in items[1:]:
        if less(item, result, meter):
            result = item
    return result


def largest(meter: Meter, *values: Value) -> Value:
    """The greatest item of a list, or of several values."""
    items = _candidates("max", meter, values)
    result = items[0]
    for item in items[1:]:
        if less(result, item, meter):
            result = item
    return result


def _candidates(name: str, meter: Meter, values: tuple[Value, ...]) -> list[Value]:
    items = _list_argument(name, meter, values[0]) if len(values) == 1 else list(values)
    if not items:
        _empty(name)
    if type(items[0]) not in NUMBERS and type(items[0]) not in ORDERED:
        no_overload(f"{name}()", items[0])
    return items


def flatten(meter: Meter, items: Value, depth: Value = 1) -> list[Value]:
    """The list with the items of lists in it in their place, `depth` levels deep."""
    levels = integer_argument("flatten", depth, 0)
    result = _list_argument("flatten", meter, items)
    for _ in range(min(levels, MAX_VALUE_DEPTH)):
        if not any(type(item) is list for item in result):
            break
        flat: list[Value] = []
        for item in result:
            part = item if type(item) is list else (item,)
            meter.make_list(len(flat) + len(part))
            meter.cost += len(flat)  # only the items added now are new
            flat.extend(part)
        result = flat
    return result


def distinct(meter: Meter, items: Value) -> list[Value]:
    """The list without items equal to an earlier one."""
    seen: dict[Value, Value] = {}
    for item in _list_argument("distinct", meter, items):
        seen.setdefault(_identity(meter, item, MAX_VALUE_DEPTH), item)
    return list(seen.values())


def _identity(meter: Meter, value: Value, depth: int) -> Value:
    """Something hashable that is equal for equal values; a bool is no number."""
    kind = type(value)
    if depth == 0:
        raise BudgetFault(f"the items of distinct() nest deeper than {MAX_VALUE_DEPTH}")
    if kind is list:
        meter.charge(len(value))
        return (list, *(_identity(meter, item, depth - 1) for item in value))
    if kind is dict:
        meter.charge(len(value))
        pairs = ((_identity(meter, key, 1), _identity(meter, item, depth - 1)) for key, item in value.items())
        return (dict, frozenset(pairs))
    if kind is str or kind is bytes:
        meter.charge_text(len(value))
        return value
    return (bool, value) if kind is bool else value


def sort_by(meter: Meter, items: Value, field: Value = None) -> list[Value]:
    """The items in order of their own value, or of a field."""
    values = _list_argument("sort_by", meter, items)
    if field is None:
        return sort_by_keys(meter, values, values)
    if type(field) is not str:
        no_overload("sort_by()", items, field)
    return sort_by_keys(meter, values, [select(item, field) for item in values])


def sort_by_keys(meter: Meter, items: list[Value], keys: list[Value]) -> list[Value]:
    """The items in order of their keys, equal ones in their old order."""
    if not keys:
        return []
    first = type(keys[0])
    for key in keys:
        kind = type(key)
        if not (kind in NUMBERS and first in NUMBERS) and not (kind is first and kind in ORDERED):
            no_overload("sort_by()", keys[0], key)
        if key != key:  # noqa: PLR0124  # only NaN differs from itself
            raise Fault("invalid_argument", "sort_by() can't order NaN")
        if kind is str or kind is bytes:
            meter.charge_text(len(key))
    meter.make_list(len(items))
    meter.charge(len(items) * len(items).bit_length())
    return [items[position] for position in sorted(range(len(items)), key=keys.__getitem__)]


def slice_of(meter: Meter, value: Value, start: Value, end: Value = None) -> Value:
    """A part of a list or a text, from `start` up to and without `end`; negative positions count from the end."""
    if type(value) not in (list, str):
        no_overload("slice()", value)
    if type(start) not in (int, Uint) or (end is not None and type(end) not in (int, Uint)):
        no_overload("slice()", value, start, end)
    result = value[int(start) : None if end is None else int(end)]
    meter.charge(1 + len(result))
    return result


def sequence(meter: Meter, first: Value, end: Value = None, step: Value = 1) -> list[Value]:
    """The integers from 0 up to and without `first`, or from `first` up to and without `end`, by `step`."""
    for value in (first, step, *([] if end is None else [end])):
        if type(value) not in (int, Uint):
            no_overload("range()", value)
        checked_int(value)
    if step == 0:
        raise Fault("invalid_argument", "range() takes a step that is not 0")
    numbers = range(0, int(first), int(step)) if end is None else range(int(first), int(end), int(step))
    count = max(0, -((numbers.start - numbers.stop) // numbers.step))  # len() refuses ranges beyond the machine's word
    meter.make_list(count)
    return list(numbers)


def chunk(meter: Meter, items: Value, size: Value) -> list[Value]:
    """The list in lists of `size` items, the last one maybe shorter."""
    values = _list_argument("chunk", meter, items)
    length = integer_argument("chunk", size, 1)
    return [values[position : position + length] for position in range(0, len(values), length)]


def merge(meter: Meter, *maps: Value) -> dict[Value, Value]:
    """One map with the keys of all; where several have a key, the last one counts."""
    result: dict[Value, Value] = {}
    for part in maps:
        if type(part) is not dict:
            no_overload("merge()", *maps)
        meter.make_list(len(result) + len(part))
        result.update(part)
    return result


def to_map(meter: Meter, items: Value, key: Value, value: Value = None) -> dict[Value, Value]:
    """A map from the field `key` of each item to its field `value`, or to the item itself."""
    values = _list_argument("to_map", meter, items)
    if type(key) is not str or (value is not None and type(value) is not str):
        no_overload("to_map()", items, key, value)
    keys = [select(item, key) for item in values]
    return to_map_of_keys(meter, values, keys, values if value is None else [select(item, value) for item in values])


def to_map_of_keys(meter: Meter, items: list[Value], keys: list[Value], values: list[Value]) -> dict[Value, Value]:
    """A map from each key to its value; keys are texts, or integers that become texts."""
    meter.make_list(len(items))
    result: dict[Value, Value] = {}
    for key, value in zip(keys, values, strict=True):
        if type(key) not in (str, int, Uint):
            no_overload("to_map()", key)
        text = key if type(key) is str else str(int(key))
        if text in result:
            raise Fault("duplicate_key", f"two items give to_map() the key {text!r}", key=text)
        result[text] = value
    return result


CONTAINER_FUNCTIONS = (
    Function(name="sum", implementation=total, least=1, most=1),
    Function(name="min", implementation=smallest, least=1, most=8),
    Function(name="max", implementation=largest, least=1, most=8),
    Function(name="avg", implementation=average, least=1, most=1),
    Function(name="flatten", implementation=flatten, least=1, most=2),
    Function(name="distinct", implementation=distinct, least=1, most=1),
    Function(name="sort_by", implementation=sort_by, least=1, most=2),
    Function(name="slice", implementation=slice_of, least=2, most=3),
    Function(name="range", implementation=sequence, least=1, most=3),
    Function(name="chunk", implementation=chunk, least=2, most=2),
    Function(name="merge", implementation=merge, least=1, most=8),
    Function(name="to_map", implementation=to_map, least=2, most=3),
)
KEYED_FUNCTIONS: dict[str, Implementation] = {"sort_by": sort_by_keys, "to_map": to_map_of_keys}
"""What runs when a function is called with a variable: it takes the items, then one list of values per body."""
