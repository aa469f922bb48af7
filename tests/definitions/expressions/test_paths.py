"""Pure paths and constants take a way of their own, with the results and the errors of the engines."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.expressions import ExpressionError, MappingActivation, compile_expression
from ductor.definitions.expressions.engine import Engine
from tests.definitions.expressions.evaluating import exact, outcome, through_engine

NAMES = ("a", "b", "steps")
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.sampled_from(["", "a", "xyz"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.sampled_from([".a", ".b", ".steps", "[0]", "[1]", '["a"]', "[2]", ".missing"])
PATHS = st.tuples(st.sampled_from(["a", "b", "steps", "unbound"]), st.lists(KEYS, max_size=4)).map(
    lambda parts: parts[0] + "".join(parts[1])
)
STEPS = st.dictionaries(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2), max_size=2)


@given(source=PATHS, a=VALUES, b=VALUES, steps=STEPS)
def test_a_path_has_the_outcome_of_an_expression_that_is_not_a_path(
    source: str, a: Any, b: Any, steps: Any, engine: Engine
) -> None:
    data = {"a": a, "b": b, "steps": steps}
    direct = outcome(source, data, engine)
    assert exact(through_engine(source, data, engine)) == exact(direct)
    # The engine walks key by key here: the root is an item of a list, not a variable.
    root, keys = re.fullmatch(r"(\w+)(.*)", source).groups()  # type: ignore[union-attr]  # it always matches
    if root != "unbound":
        assert exact(outcome(f"[{root}][0]{keys}", data, engine)) == exact(direct)


@pytest.mark.parametrize("steps", [None, 5, [], {"a": None}, {"a": 5}])
@pytest.mark.parametrize("source", ["steps.a.output", "steps['a']", "steps", "steps.b"])
def test_steps_of_a_wrong_form_fail_as_any_other_value(source: str, steps: Any, engine: Engine) -> None:
    data = {"steps": steps}
    assert exact(through_engine(source, data, engine)) == exact(outcome(source, data, engine))


def test_a_path_gives_the_very_value_of_the_activation() -> None:
    items: list[Any] = [{"deep": list(range(100))}]
    assert compile_expression("trigger.items").evaluate({"trigger": {"items": items}}) is items


def test_a_path_keeps_what_json_holds_and_cel_does_not() -> None:
    data: dict[str, Any] = {"trigger": {"big": 2**200, "odd": [1e308]}}
    assert compile_expression("trigger.big").evaluate(data) == 2**200
    assert compile_expression("trigger.odd").evaluate(data) == [1e308]


@pytest.mark.parametrize(("source", "value"), [("1", 1), ("'a'", "a"), ("null", None), ("b'a'", "YQ=="), ("2u", 2)])
def test_a_constant_needs_no_variables(source: str, value: object, engine: Engine) -> None:
    assert compile_expression(source, engine=engine).evaluate({}) == value


@pytest.mark.parametrize("source", ["trigger.flag", "trigger.flag == true"])
def test_a_condition_must_be_a_boolean(source: str, engine: Engine) -> None:
    expression = compile_expression(source, engine=engine)
    assert expression.evaluate_boolean({"trigger": {"flag": True}}) is True
    assert expression.evaluate_boolean(MappingActivation({"trigger": {"flag": False}})) is False


@pytest.mark.parametrize("value", [1, 0, "true", None, [], {}])
def test_a_condition_that_is_no_boolean_fails(value: Any, engine: Engine) -> None:
    for source in ("trigger.flag", "default(trigger.flag, [trigger.flag][0])"):
        with pytest.raises(ExpressionError) as caught:
            compile_expression(source, engine=engine).evaluate_boolean({"trigger": {"flag": value}})
        assert caught.value.kind == "not_boolean"
