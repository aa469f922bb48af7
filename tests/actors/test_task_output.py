"""How what a handler returns becomes JSON."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections import OrderedDict, deque, namedtuple
from typing import Any

import msgspec
import pytest
from hypothesis import given

from ductor.actors.errors import ResultNotEncodableError
from ductor.actors.task_output import json_of_result, stored_result
from ductor.journal.codec import MAX_INLINE_BYTES, MAX_VALUE_BYTES, MAX_VALUE_DEPTH
from tests.journal.event_strategies import json_values


class Line(msgspec.Struct, rename="camel", tag="line"):
    sku_code: str
    parts: tuple[object, ...] = ()


@dataclasses.dataclass
class Address:
    city: object


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


Point = namedtuple("Point", "x y")  # noqa: PYI024


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, None),
        ((1, (2, [3])), [1, [2, [3]]]),
        ({1}, [1]),
        (deque([1]), [1]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({1: "a", Level.HIGH: "b", datetime.date(2026, 1, 2): "c"}, {"1": "a", "3": "b", "2026-01-02": "c"}),
        (Line("a", (1, decimal.Decimal("1.10"))), {"type": "line", "skuCode": "a", "parts": [1, "1.10"]}),
        (Address((Colour.RED, Level.HIGH)), {"city": ["red", 3]}),
        ([Address(Address("Basel"))], [{"city": {"city": "Basel"}}]),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC), "2026-01-02T03:04:05.000006Z"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"abc", "YWJj"),
        ([Text("a"), Number(2), Real(1.5)], ["a", 2, 1.5]),
        (2**200, 2**200),
    ],
)
def test_what_has_an_obvious_json_form_gets_it(result: Any, expected: Any):
    found = json_of_result("a.task", result)
    assert (found, repr(found)) == (expected, repr(expected))


def itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


@pytest.mark.parametrize(
    ("result", "path", "python_type"),
    [
        (object(), "", "object"),
        ({"a": [1, {"b": object()}]}, "a[1].b", "object"),
        ({"a": [1, float("nan")]}, "a[1]", "float"),
        (Address(float("inf")), "city", "float"),
        ([Address(object())], "[0].city", "object"),
        (Line("a", (object(),)), "parts[0]", "object"),
        ({"a": {(1, 2): 3}}, "a", "tuple"),
        ({1: "a", "1": "b"}, "", "dict"),
        ("nul\0", "", "str"),
        ({"a": "\ud800"}, "a", "str"),
        (10**700, "", "int"),
    ],
)
def test_what_has_none_is_refused_with_path_and_type(result: Any, path: str, python_type: str):
    with pytest.raises(ResultNotEncodableError) as caught:
        json_of_result("a.task", result)
    error = caught.value
    assert (error.task, error.path, error.python_type) == ("a.task", path, python_type)


@pytest.mark.parametrize("result", [itself(), deep(MAX_VALUE_DEPTH + 1), deep(5_000)])
def test_endless_and_very_deep_results_are_refused(result: Any):
    with pytest.raises(ResultNotEncodableError, match="nested deeper"):
        json_of_result("a.task", result)


def test_results_that_are_too_large_are_refused():
    with pytest.raises(ResultNotEncodableError, match="limit"):
        json_of_result("a.task", "x" * (MAX_VALUE_BYTES + 1))


def test_a_large_result_is_referenced():
    small, large = stored_result("a.task", "x"), stored_result("a.task", "x" * MAX_INLINE_BYTES)
    assert (small.inline, small.ref) == ("x", None)
    assert large.inline is None
    assert large.payload is not None
    assert large.value == "x" * MAX_INLINE_BYTES


@given(json_values)
def test_json_passes_unchanged_and_copied(value: Any):
    found = json_of_result("a.task", value)
    assert (found, repr(found)) == (value, repr(value))
    if isinstance(value, list | dict):
        assert found is not value


@given(json_values)
def test_the_path_to_a_stranger_is_right(value: Any):
    """Put a stranger where the first item of every container is: the path found leads to one."""
    if not isinstance(value, list | dict) or not value:
        return
    stranger = object()
    if isinstance(value, list):
        value[-1] = stranger
        path = f"[{len(value) - 1}]"
    else:
        path = list(value)[-1]
        value[path] = stranger
    with pytest.raises(ResultNotEncodableError) as caught:
        json_of_result("a.task", value)
    assert caught.value.path == path
