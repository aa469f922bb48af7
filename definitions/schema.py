"""The JSON Schema of the language, for editors.

It is made from the same shapes that read documents, sugar included, and committed as `ductor.schema.json`:

    python -m ductor.definitions.schema > definitions/ductor.schema.json

It says what a document may look like; what a definition as a whole must satisfy, as refs and cycles, it can't say.
"""

import json
import sys
from typing import Final

from ductor.definitions.fields import REF_LENGTH_MAX, REF_PATTERN
from ductor.definitions.json_schema import DRAFT
from ductor.definitions.parse import definition_shape
from ductor.definitions.parsing.edges import OUTCOMES
from ductor.definitions.parsing.steps import BODY_TYPES, CHILD_TYPES, STEP_ONLY_KEYS
from ductor.definitions.parsing.struct_shapes import StructShape, struct_shape
from ductor.definitions.steps import STEP_TYPES
from ductor.definitions.values import JsonObject

_REF: Final[JsonObject] = {"type": "string", "pattern": REF_PATTERN, "maxLength": REF_LENGTH_MAX}


def language_schema() -> JsonObject:
    """Return the JSON Schema of a definition document."""
    shapes = [definition_shape(), *(struct_shape(step_type) for step_type in STEP_TYPES.values())]
    structs = {inner.struct.__name__: inner.named_schema() for shape in shapes for inner in shape.nested()}
    return {
        "$schema": DRAFT,
        "title": "ductor definition",
        **_definition(),
        "$defs": {
            "next": _next(),
            "target": _target(),
            "body": _body(),
            "step": _any_step(tuple(STEP_TYPES), ("ref",), without=()),
            "deferred": _any_step(tuple(STEP_TYPES), ("ref",), without=("next", "compensate")),
            "child": _any_step(CHILD_TYPES, (), without=("ref", "next")),
            **{name: _step_fields(name) for name in STEP_TYPES},
            **dict(sorted(structs.items())),
        },
    }


def _definition() -> JsonObject:
    properties, required = _properties(definition_shape())
    properties["steps"] = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}
    properties["defer"] = {"type": "array", "items": {"$ref": "#/$defs/deferred"}}
    properties["defaults"] = {
        "type": "object",
        "description": "values for the steps of a type that don't give their own.",
        "properties": {
            name: {"$ref": f"#/$defs/{name}", "properties": dict.fromkeys(sorted(STEP_ONLY_KEYS), False)}
            for name in STEP_TYPES
        },
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": properties,
        "required": [*required, "steps"],
        "additionalProperties": False,
    }


def _properties(shape: StructShape) -> tuple[JsonObject, list[str]]:
    """The properties of a map, and which of them must be given."""
    schema = shape.map_schema()
    properties, required = schema["properties"], schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise TypeError("the schema of a map has properties and required keys")
    return properties, [str(key) for key in required]


def _step_fields(name: str) -> JsonObject:
    """The fields a step of a type may have, wherever it stands; none is required."""
    properties, _ = _properties(struct_shape(STEP_TYPES[name]))
    properties |= {"type": {"const": name}, "next": {"$ref": "#/$defs/next"}}
    if name == "scatter":
        properties["do"] = {"anyOf": [{"$ref": "#/$defs/child"}, {"$ref": "#/$defs/body"}]}
    elif name in BODY_TYPES:
        properties["do"] = {"$ref": "#/$defs/body"}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _required(name: str) -> JsonObject:
    """What a step of a type must have, its ref apart."""
    _, required = _properties(struct_shape(STEP_TYPES[name]))
    schema: JsonObject = {
        "required": [key for key in (*required, *(["do"] if name == "scatter" else [])) if key != "ref"]
    }
    if name == "subworkflow":
        schema["oneOf"] = [{"required": ["definition"]}, {"required": ["do"]}]
    return schema


def _any_step(names: tuple[str, ...], required: tuple[str, ...], *, without: tuple[str, ...]) -> JsonObject:
    """A step of one of the types; told apart by `type`, so that errors speak of the type meant."""
    return {
        "type": "object",
        "required": ["type", *required],
        "properties": {"type": {"enum": [*names]}, **dict.fromkeys(without, False)},
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
                "then": {"$ref": f"#/$defs/{name}", **_required(name)},
            }
            for name in names
        ],
    }


def _next() -> JsonObject:
    targets: JsonObject = {
        "anyOf": [{"$ref": "#/$defs/target"}, {"type": "array", "items": {"$ref": "#/$defs/target"}}]
    }
    by_outcome: JsonObject = {
        "type": "object",
        "properties": dict.fromkeys(sorted(OUTCOMES), targets),
        "additionalProperties": False,
    }
    return {"anyOf": [targets, by_outcome]}


def _target() -> JsonObject:
    branch: JsonObject = {
        "type": "object",
        "properties": {"when": {"type": ["string", "boolean"]}, "to": _REF},
        "required": ["to"],
        "additionalProperties": False,
    }
    choice: JsonObject = {
        "type": "object",
        "properties": {"choice": {"type": "array", "minItems": 1, "items": branch}},
        "required": ["choice"],
        "additionalProperties": False,
    }
    return {"anyOf": [_REF, choice]}


def _body() -> JsonObject:
    return {
        "type": "object",
        "properties": {"steps": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/step"}}, "output": {}},
        "required": ["steps"],
        "additionalProperties": False,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(language_schema(), indent=1) + "\n")
