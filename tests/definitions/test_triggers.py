"""Triggers: defaults are applied, then they must fit."""

import pytest

from ductor.definitions.json_schema import PROBLEMS_MAX, Schema, schema_problems
from ductor.definitions.model import Definition
from ductor.definitions.steps import TaskStep
from ductor.definitions.triggers import DEFAULTS_MAX, TriggerError, TriggerSchema, validate_trigger
from ductor.definitions.values import JsonObject


def definition(schema):
    return Definition(name="order", input=schema, steps=(TaskStep(ref="a", task="t"),))


SCHEMA: JsonObject = {
    "type": "object",
    "required": ["order_id"],
    "properties": {
        "order_id": {"type": "string"},
        "qty": {"type": "integer", "default": 1},
        "address": {"$ref": "#/$defs/address"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"unit": {"default": "pcs"}}}},
        "notes": {"type": "array", "default": []},
    },
    "allOf": [{"properties": {"channel": {"default": "web"}}}],
    "$defs": {
        "address": {
            "type": "object",
            "default": {},
            "properties": {"country": {"$ref": "#/$defs/country"}},
        },
        "country": {"default": "NO"},
    },
}


def test_defaults_are_applied_at_every_level():
    trigger: JsonObject = {"order_id": "o-1", "lines": [{"sku": "A"}, {"unit": "kg"}]}
    assert validate_trigger(definition(SCHEMA), trigger) == {
        "order_id": "o-1",
        "qty": 1,
        "address": {"country": "NO"},
        "lines": [{"sku": "A", "unit": "pcs"}, {"unit": "kg"}],
        "notes": [],
        "channel": "web",
    }
    assert trigger == {"order_id": "o-1", "lines": [{"sku": "A"}, {"unit": "kg"}]}


def test_defaults_are_copies():
    schema = TriggerSchema(definition(SCHEMA))
    first, second = schema.validate({"order_id": "o"}), schema.validate({"order_id": "o"})
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert isinstance(first["notes"], list)
    first["notes"].append("mine")
    assert second["notes"] == []


def test_every_problem_is_told():
    with pytest.raises(TriggerError) as caught:
        validate_trigger(definition(SCHEMA), {"qty": "x", "lines": [{}, 3]})
    problems = {problem.place.path: problem.message for problem in caught.value.problems}
    assert set(problems) == {"", "qty", "lines[1]"}
    assert "order_id" in problems[""]
    assert caught.value.definition == "order"
    assert "lines[1]" in str(caught.value)


@pytest.mark.parametrize("trigger", [None, 3, "x", [1], {"a": {"b": None}}])
def test_without_input_anything_fits(trigger):
    assert validate_trigger(definition(None), trigger) == trigger


def test_a_schema_may_be_a_boolean():
    assert validate_trigger(definition(True), 3) == 3
    with pytest.raises(TriggerError):
        validate_trigger(definition(False), 3)


def test_a_schema_that_contains_itself_gives_no_endless_defaults():
    schema = {"properties": {"child": {"$ref": "#", "default": {}}}}
    value = validate_trigger(definition(schema), {})
    depth = 0
    while isinstance(value, dict) and "child" in value:
        value, depth = value["child"], depth + 1
    assert 0 < depth <= 65


def test_a_schema_that_multiplies_itself_is_stopped():
    schema = {"properties": {name: {"$ref": "#", "default": {}} for name in ("a", "b")}}
    with pytest.raises(TriggerError, match=f"{DEFAULTS_MAX:,}"):
        validate_trigger(definition(schema), {})


def test_references_in_a_circle_end():
    assert validate_trigger(definition({"properties": {"a": {"$ref": "#/properties/a"}}}), {}) == {}


def test_formats_are_checked():
    with pytest.raises(TriggerError, match="date-time"):
        validate_trigger(definition({"format": "date-time"}), "tomorrow")


def test_problems_of_one_value_are_bounded():
    found = Schema({"items": {"type": "integer"}}).problems(["x"] * 1_000)
    assert len(found) == PROBLEMS_MAX


def test_patterns_take_time_in_proportion():
    with pytest.raises(TriggerError):
        validate_trigger(definition({"pattern": "^(a+)+$"}), "a" * 50_000 + "!")


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "objct"}, ("type",)),
        ({"properties": {"a": {"minimum": "x"}}}, ("properties", "a", "minimum")),
        ({"$ref": "https://example.com/x"}, ("$ref",)),
        ({"allOf": [{"$dynamicRef": "other#x"}]}, ("allOf", 0, "$dynamicRef")),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, ("$schema",)),
        ({"$ref": "#/$defs/nowhere"}, ()),
        ({"pattern": "("}, ("pattern",)),
        (3, ()),
    ],
)
def test_schemas_that_are_refused(schema, path):
    assert path in [found for found, _ in schema_problems(schema)]


def test_all_problems_of_a_schema_are_told():
    found = schema_problems({"type": "objct", "properties": {"a": {"type": "strng"}}, "required": "a"})
    assert len(found) == 3
