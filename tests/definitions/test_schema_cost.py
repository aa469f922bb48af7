"""Schemas that could keep a validator busy for ever are refused, ordinary ones are not."""
# ruff: noqa: E501  (a case is one line)

import pytest

from ductor.definitions.json_schema import DRAFT, schema_problems
from ductor.definitions.schema_cost import VISITS_MAX, cost_fault
from ductor.definitions.values import JsonObject


def doubling(levels, wrap) -> JsonObject:
    """A schema whose k-th definition uses the one before it as `wrap` says."""
    return {
        "$ref": f"#/$defs/a{levels}",
        "$defs": {"a0": {}, **{f"a{k}": wrap({"$ref": f"#/$defs/a{k - 1}"}) for k in range(1, levels + 1)}},
    }


def twice(schema):
    return {"allOf": [schema, schema]}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(40, twice),
        doubling(40, lambda one: {"anyOf": [one, {"oneOf": [one]}]}),
        doubling(40, lambda one: {"allOf": [{"properties": {"x": one}}, {"properties": {"x": one}}]}),
        doubling(40, lambda one: {"properties": {"x": one}, "patternProperties": {"^x": one}}),
        doubling(40, lambda one: {"items": one, "contains": one}),
        doubling(40, lambda one: {"if": one, "else": one}),
        {"properties": {"x": twice({"$ref": "#"})}},
        {"items": {"allOf": [{"$ref": "#"}, {"items": {"$ref": "#"}}, {"$ref": "#"}]}},
        {"$dynamicAnchor": "top", "items": twice({"$dynamicRef": "#top"})},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ],
)
def test_what_may_look_at_one_value_without_end_is_refused(schema):
    assert cost_fault(schema)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}}}}},
        {"properties": {"child": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}},
        {"prefixItems": [{"$ref": "#"}, {"$ref": "#"}], "items": {"$ref": "#"}},
        {"anyOf": [{"type": "number"}, {"type": "array", "items": {"$ref": "#"}}]},
        doubling(7, twice),
        {"allOf": [{"properties": {f"k{number}": {"type": "string"}}} for number in range(200)]},
        {"properties": {f"k{number}": {"properties": {"x": {"items": {"type": "string"}}}} for number in range(1_500)}},
    ],
)  # fmt: skip
def test_ordinary_schemas_are_not(schema):
    assert cost_fault(schema) is None


def test_the_count_is_exact_at_its_bound():
    assert cost_fault({"allOf": [{}] * (VISITS_MAX - 1)}) is None
    assert cost_fault({"allOf": [{}] * VISITS_MAX})


def test_states_that_combine_without_end_are_refused():
    """Each key halves a set of subschemas in its own way, so their subsets all come up."""
    parts: JsonObject = {
        f"p{part}": {
            "properties": {f"k{key}": {"$ref": f"#/$defs/p{(part * 2 + key) % 24}"} for key in range(24) if key != part}
        }
        for part in range(24)
    }
    assert cost_fault({"allOf": [{"$ref": f"#/$defs/{name}"} for name in parts], "$defs": parts})


def test_refusals_are_problems_of_the_schema():
    assert schema_problems({"$schema": DRAFT, **doubling(40, twice)})
    assert [path for path, _ in schema_problems({"properties": {"a": {"$id": "https://example.com/a"}}})] == [
        ("properties", "a", "$id")
    ]
    assert schema_problems({"$id": "https://example.com/a"}) == []
