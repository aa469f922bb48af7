"""Templates: JSON values with `${...}` inside."""

from collections.abc import Mapping
from typing import Any

import pytest

from ductor.definitions.errors import Place
from ductor.definitions.expressions import (
    Activation,
    ExpressionError,
    ExpressionSyntaxError,
    Names,
    compile_template,
)
from ductor.definitions.expressions.budget import MAX_TEMPLATE_DEPTH, MAX_TEXT_LENGTH
from ductor.definitions.values import JsonValue
from tests.definitions.expressions.evaluating import exact

DATA: dict[str, Any] = {
    "trigger": {"sku": "a-1", "qty": 3, "price": 1.0, "none": None, "yes": True, "list": [1, {"b": 2, "a": "é"}]},
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # One whole expression keeps its type
        ("${trigger.sku}", "a-1"),
        ("${trigger.qty}", 3),
        ("${ trigger.none }", None),
        ("${trigger.list}", [1, {"b": 2, "a": "é"}]),
        ("${trigger.qty * 2}", 6),
        # Otherwise the parts are joined as text
        ("sku ${trigger.sku}!", "sku a-1!"),
        ("${trigger.sku}${trigger.qty}", "a-13"),
        (" ${trigger.qty}", " 3"),
        ("[${trigger.none}]", "[]"),
        ("${trigger.price}x", "1x"),
        ("${trigger.yes}x", "truex"),
        ("${trigger.list}.", '[1,{"a":"é","b":2}].'),
        ("at ${timestamp(0)}", "at 1970-01-01T00:00:00Z"),
        ("${9007199254740993} is big", "9007199254740993 is big"),
        # Braces balance, strings inside are respected
        ("${ {'a': {'b': 1}} }", {"a": {"b": 1}}),
        ("${'}'}", "}"),
        ('${"${" + "}"}', "${}"),
        ("x${'\\'}'}y", "x'}y"),
        ("${{'a': '}'}.a}z", "}z"),
        # Escapes
        ("$${trigger.sku}", "${trigger.sku}"),
        ("$${a} ${trigger.qty} $${b}", "${a} 3 ${b}"),
        ("$$${trigger.qty}", "$${trigger.qty}"),
        ("$5 and $", "$5 and $"),
        ("cost: $${", "cost: ${"),
        # No string, no evaluation; keys are never evaluated
        (5, 5),
        (None, None),
        ({"${trigger.sku}": "${trigger.qty}"}, {"${trigger.sku}": 3}),
        ({"a": [1, "${trigger.qty}", {"b": "${trigger.sku}"}], "c": "d"}, {"a": [1, 3, {"b": "a-1"}], "c": "d"}),
        ([], []),
    ],
    ids=str,
)
def test_a_template_is_rendered(value: JsonValue, expected: JsonValue) -> None:
    assert exact(compile_template(value).render(DATA)) == exact(expected)


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        ({"a": [1, "b"]}, True),
        ("$${x}", True),
        ("${trigger.qty}", False),
        ("${1}", False),
        ([{"a": "x${trigger.qty}"}], False),
    ],
    ids=str,
)
def test_a_template_knows_whether_it_is_constant(value: JsonValue, constant: bool) -> None:
    assert compile_template(value).constant is constant


def test_a_constant_part_is_shared_not_copied() -> None:
    part: JsonValue = {"deep": [1, 2]}
    rendered = compile_template({"same": part, "other": "${trigger.qty}"}).render(DATA)
    assert isinstance(rendered, dict)
    assert rendered["same"] is part


def test_the_names_of_all_expressions_are_known() -> None:
    template = compile_template({"a": "${steps.x.output}", "b": ["n: ${config.n + steps['y'].output}"]})
    assert template.names == Names(
        variables=frozenset({"steps", "config"}), steps=frozenset({"x", "y"}), all_steps=False
    )


@pytest.mark.parametrize(
    ("value", "path", "column", "message"),
    [
        ({"a": ["x", "${trigger.}"]}, "input.a[1]", 9, "found the end where a field name was expected"),
        ({"odd key": "${1 +}"}, "input['odd key']", 4, "found the end where a value was expected"),
        ("a ${trigger.sku", "input", 3, "the expression that starts here is not closed"),
        ("${'abc}", "input", 3, "the text that starts here is not closed"),
        ("${}", "input", 1, "the expression is empty"),
        ("${ // comment }", "input", 1, "the expression that starts here is not closed"),
        ("${a ; b}", "input", 5, "';' can't be read"),
    ],
)
def test_an_error_says_where(value: JsonValue, path: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_template(value, place=Place(file="order.yaml", line=7, column=3, path="input"))
    error = caught.value
    assert (error.place.path, error.place.file, error.place.line) == (path, "order.yaml", 7)
    assert (error.column, error.message) == (column, message)
    assert error.problem().place == error.place


def test_all_errors_of_a_template_are_found_at_once() -> None:
    with pytest.raises(ExpressionSyntaxError) as caught:
        compile_template({"a": "${1 +}", "b": "${trigger.x}", "c": ["${nope}"]}, variables=frozenset({"trigger"}))
    assert caught.value.place.path == "a"
    assert [(other.place.path, other.kind) for other in caught.value.others] == [("c[0]", "unknown_variable")]


def test_a_failing_expression_names_its_place_in_the_template() -> None:
    template = compile_template({"a": ["n: ${trigger.nope}"]}, place=Place(path="input"))
    with pytest.raises(ExpressionError) as caught:
        template.render(DATA)
    assert (caught.value.place.path, caught.value.source, caught.value.key) == ("input.a[0]", "trigger.nope", "nope")


def test_a_joined_text_has_a_limit() -> None:
    template = compile_template("${trigger.text}${trigger.text}")
    assert template.render({"trigger": {"text": "x" * (MAX_TEXT_LENGTH // 2)}})
    with pytest.raises(ExpressionError) as caught:
        template.render({"trigger": {"text": "x" * (MAX_TEXT_LENGTH // 2 + 1)}})
    assert caught.value.kind == "budget"


def test_a_number_without_canonical_form_fails_inside_a_text() -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template("n: ${trigger.n}").render({"trigger": {"n": [2**60]}})
    assert caught.value.kind == "not_json"


def test_a_template_nests_only_so_deep() -> None:
    value: JsonValue = "${trigger.qty}"
    for _ in range(MAX_TEMPLATE_DEPTH):
        value = [value]
    assert not compile_template(value).constant
    with pytest.raises(ExpressionSyntaxError, match="nests deeper than"):
        compile_template([value])


class CountingActivation(Activation):
    """Counts what is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def lookup(self, name: str) -> JsonValue:
        self.asked.append(name)
        return {"n": 1}

    def step(self, ref: str) -> Mapping[str, JsonValue]:
        self.asked.append(f"steps.{ref}")
        return {"output": {"n": 2}}


def test_only_the_steps_that_are_named_are_touched() -> None:
    activation = CountingActivation()
    template = compile_template({"a": "${steps.x.output.n + 1}", "b": "${steps['y'].output.n}", "c": "${config.n}"})
    assert template.render(activation) == {"a": 3, "b": 2, "c": 1}
    assert activation.asked == ["steps.x", "steps.y", "config"]
