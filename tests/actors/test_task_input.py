"""How the input of an attempt becomes the arguments of its handler."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.context import TaskContext
from ductor.actors.errors import InvalidInputError
from ductor.actors.task_input import InputBinding
from tests.journal.event_strategies import json_values


class Line(msgspec.Struct):
    sku: str
    qty: int = 1


class Order(msgspec.Struct):
    order_id: str
    lines: list[Line] = []


class Wrapped(msgspec.Struct):
    """Has a field named as the parameter of its handler."""

    order: int


class Payment(msgspec.Struct, tag="payment"):
    amount: int


class Refund(msgspec.Struct, tag="refund"):
    amount: int


@dataclasses.dataclass
class Address:
    city: str


class Contact(TypedDict):
    email: str


class Colour(enum.Enum):
    RED = "red"


def arguments(handler: Callable[..., Any], value: Any, context: Any = None) -> dict[str, Any]:
    return InputBinding("a.task", handler).arguments(value, context)


def refused(handler: Callable[..., Any], value: Any) -> tuple[str, str]:
    with pytest.raises(InvalidInputError) as caught:
        arguments(handler, value)
    assert caught.value.task == "a.task"
    return caught.value.path, caught.value.reason


def reserve(sku: str, qty: int, note: str = "none", *, tags: list[str] = []) -> None: ...  # noqa: B006


def test_parameters_are_filled_by_name():
    value = {"qty": 2, "sku": "A1", "tags": ["x"]}
    assert arguments(reserve, value) == {"sku": "A1", "qty": 2, "tags": ["x"]}


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"sku": "A1"}, "qty", "missing required field `qty`"),
        ({"sku": "A1", "qty": "2"}, "qty", "Expected `int`, got `str`"),
        ({"sku": "A1", "qty": 2.5}, "qty", "Expected `int`, got `float`"),
        ({"sku": "A1", "qty": 2, "colour": 1}, "colour", "unknown field `colour`"),
        ({"sku": "A1", "qty": 2, "note": None}, "note", "got `null`"),
        ({"sku": "A1", "qty": 2, "tags": ["x", 1]}, "tags[1]", "Expected `str`, got `int`"),
        ([1], "", "got `array`"),
        (None, "sku", "missing"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_path(value: Any, path: str, reason: str):
    found_path, found_reason = refused(reserve, value)
    assert found_path == path
    assert reason in found_reason


def test_a_path_leads_into_the_depth():
    def place(order: Order, express: bool) -> None: ...

    lines: list[Any] = [{"sku": "a"}, {"qty": 1}]
    assert refused(place, {"order": {"order_id": "o", "lines": lines}, "express": True})[0] == "order.lines[1].sku"
    lines[1] = {"sku": 3}
    assert refused(place, {"order": {"order_id": "o", "lines": lines}, "express": True})[0] == "order.lines[1].sku"


def test_a_handler_may_take_other_names_too():
    def log(level: str, **fields: int) -> None: ...

    assert arguments(log, {"level": "x", "a": 1, "b": 2}) == {"level": "x", "a": 1, "b": 2}
    assert "Expected `int`" in refused(log, {"level": "x", "a": "1"})[1]
    assert refused(log, {"a": 1})[0] == "level"


def test_the_context_goes_where_it_is_annotated_and_its_name_is_not_for_others():
    def aware(context: TaskContext, sku: str) -> None: ...

    def open_ended(context: TaskContext, **fields: int) -> None: ...

    def alone(context: TaskContext) -> None: ...

    assert InputBinding("x", aware).wants_context
    assert not InputBinding("x", reserve).wants_context
    assert arguments(aware, {"sku": "a"}, "the context") == {"context": "the context", "sku": "a"}
    assert refused(aware, {"sku": "a", "context": 1})[0] == "context"
    assert refused(open_ended, {"context": 1})[0] == "context"
    assert arguments(alone, {}, "the context") == {"context": "the context"}


def test_without_parameters_the_input_is_empty():
    def tick() -> None: ...

    assert arguments(tick, {}) == {}
    assert arguments(tick, None) == {}
    assert refused(tick, {"a": 1})[0] == "a"
    assert "got `int`" in refused(tick, 5)[1]


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Order, {"order_id": "o", "lines": [{"sku": "a"}]}, Order("o", [Line("a")])),
        (Annotated[Order, msgspec.Meta(description="x")], {"order_id": "o"}, Order("o")),
        (Address, {"city": "Basel"}, Address("Basel")),
        (Contact, {"email": "a@b"}, {"email": "a@b"}),
        (Payment | Refund, {"type": "refund", "amount": 1}, Refund(1)),
    ],
)
def test_a_lone_parameter_with_fields_takes_the_whole_input(annotation: Any, value: Any, expected: Any):
    def handler(order: Any) -> None: ...

    handler.__annotations__["order"] = annotation
    assert arguments(handler, value) == {"order": expected}
    assert arguments(handler, {"order": value}) == {"order": expected}


def test_a_field_named_as_the_parameter_means_the_whole_input():
    def handler(order: Wrapped) -> None: ...

    assert arguments(handler, {"order": 5}) == {"order": Wrapped(5)}


def test_a_default_for_the_lone_parameter_stands_for_an_empty_input():
    def handler(order: Order = Order("default")) -> None: ...  # noqa: B008

    assert arguments(handler, {}) == {}
    assert arguments(handler, {"order_id": "o"}) == {"order": Order("o")}


def test_a_lone_parameter_of_another_type_is_filled_by_name():
    def handler(lines: dict[str, int]) -> None: ...

    assert arguments(handler, {"lines": {"a": 1}}) == {"lines": {"a": 1}}
    assert refused(handler, {"a": 1})[0] == "a"


@pytest.mark.parametrize("value", [{}, {"a": 1}, {"input": 1}, [1, 2], "text", 5, None])
def test_a_lone_parameter_named_input_takes_the_whole_input(value: Any):
    def handler(input) -> None: ...

    assert arguments(handler, value) == {"input": value}


def test_an_input_that_is_no_object_goes_to_a_lone_parameter():
    def handler(skus: list[str]) -> None: ...

    assert arguments(handler, ["a"]) == {"skus": ["a"]}
    assert refused(handler, ["a", 1])[0] == "[1]"


def test_texts_become_what_the_annotation_says():
    def handler(
        at: datetime.datetime, price: decimal.Decimal, key: uuid.UUID, raw: bytes, colour: Colour, positive: Positive
    ) -> None: ...

    value = {
        "at": "2026-01-02T03:04:05Z",
        "price": "1.10",
        "key": str(uuid.UUID(int=1)),
        "raw": "YWJj",
        "colour": "red",
        "positive": 1,
    }
    assert arguments(handler, value) == {
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.10"),
        "key": uuid.UUID(int=1),
        "raw": b"abc",
        "colour": Colour.RED,
        "positive": 1,
    }
    assert refused(handler, {**value, "positive": 0})[0] == "positive"


Positive = Annotated[int, msgspec.Meta(gt=0)]


def test_arguments_are_copies():
    def handler(sku, lines: list[Any]) -> None: ...

    value: dict[str, Any] = {"sku": {"deep": [1]}, "lines": [{"a": 1}]}
    found = arguments(handler, value)
    found["sku"]["deep"].append(2)
    found["lines"][0]["a"] = 2
    assert value == {"sku": {"deep": [1]}, "lines": [{"a": 1}]}


@given(json_values)
def test_a_parameter_without_annotation_takes_any_json_exactly(value: Any):
    def handler(anything) -> None: ...

    found = arguments(handler, {"anything": value})["anything"]
    assert (found, repr(found)) == (value, repr(value))


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers()))
def test_an_input_is_taken_exactly_if_python_would_take_the_call(value: dict[str, int]):
    def handler(a: int, b: int, c: int = 7) -> tuple[int, int, int]:
        return a, b, c

    try:
        expected = handler(**value)
    except TypeError:
        assert refused(handler, value)
    else:
        assert handler(**arguments(handler, value)) == expected
