"""The trigger of a run: its defaults are applied, then it must fit the definition's `input`."""

from copy import deepcopy
from typing import Final

from ductor.definitions.documents.nodes import shorten
from ductor.definitions.errors import DuctorError, Place, Problem
from ductor.definitions.json_schema import JsonPath, Schema, show_path
from ductor.definitions.model import Definition
from ductor.definitions.values import JsonObject, JsonValue

DEFAULTS_MAX: Final = 10_000
"""Defaults that one trigger may receive."""

DEPTH_MAX: Final = 64
"""Levels of a trigger, and references followed, within which defaults are applied."""


class TriggerError(DuctorError):
    """A trigger does not fit the `input` of its definition.

    Attributes:
        definition: its name.
        problems: everything that is wrong; the path of a place is a path in the trigger.
    """

    code = "invalid_trigger"

    def __init__(self, definition: str, problems: list[Problem]) -> None:
        self.definition = definition
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"the trigger does not fit the input of `{definition}`:\n{lines}")


class TriggerSchema:
    """The `input` of a definition, compiled."""

    def __init__(self, definition: Definition) -> None:
        self._name = definition.name
        self._source = definition.input
        self._schema = Schema(definition.input) if isinstance(definition.input, (dict, bool)) else None

    def validate(self, trigger: JsonValue) -> JsonValue:
        """Return the trigger with defaults applied; the argument is left as it is.

        Raises:
            TriggerError: it does not fit.
        """
        if self._schema is None:
            return trigger
        completed = _Defaults(self._name, self._source).apply(trigger)
        found = self._schema.problems(completed)
        if found:
            raise TriggerError(self._name, [_problem("schema", message, path) for path, message in found])
        return completed


def validate_trigger(definition: Definition, trigger: JsonValue) -> JsonValue:
    """Return the trigger with the defaults of the definition's `input` applied.

    For many triggers of one definition make a `TriggerSchema` once.

    Raises:
        TriggerError: it does not fit, with every problem.
    """
    return TriggerSchema(definition).validate(trigger)


def _problem(code: str, message: str, path: JsonPath) -> Problem:
    return Problem(code=code, message=shorten(message, 300), place=Place(path=show_path(path)))


class _Defaults:
    """Applies `default` of properties, through `properties`, `items`, `allOf` and references within the schema."""

    def __init__(self, name: str, source: JsonValue) -> None:
        self._name = name
        self._root = source
        self._left = DEFAULTS_MAX

    def apply(self, value: JsonValue) -> JsonValue:
        return self._apply(self._root, value, 0)

    def _apply(self, schema: JsonValue, value: JsonValue, depth: int) -> JsonValue:
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            return value
        reference = schema.get("$ref")
        if isinstance(reference, str):
            value = self._apply(self._target(reference), value, depth + 1)
        members = schema.get("allOf")
        for member in members if isinstance(members, list) else ():
            value = self._apply(member, value, depth + 1)
        if isinstance(value, dict):
            return self._apply_properties(schema.get("properties"), value, depth)
        items = schema.get("items")
        if isinstance(value, list) and isinstance(items, dict):
            return [self._apply(items, item, depth + 1) for item in value]
        return value

    def _apply_properties(self, properties: JsonValue, value: JsonObject, depth: int) -> JsonObject:
        if not isinstance(properties, dict):
            return value
        result = dict(value)
        for key, schema in properties.items():
            if key not in result:
                default = self._default(schema)
                if default is _NONE:
                    continue
                result[key] = deepcopy(default)
                self._spend()
            result[key] = self._apply(schema, result[key], depth + 1)
        return result

    def _default(self, schema: JsonValue) -> JsonValue:
        """The default of a schema, its references followed; `_NONE` when it has none."""
        for _ in range(DEPTH_MAX):
            if not isinstance(schema, dict):
                return _NONE
            if "default" in schema:
                return schema["default"]
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return _NONE
            schema = self._target(reference)
        return _NONE

    def _target(self, reference: str) -> JsonValue:
        """What a reference `#/...` points to; null for an anchor, through which no defaults are applied."""
        value = self._root
        for part in reference.removeprefix("#").split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value if reference == "#" or reference.startswith("#/") else None

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            message = f"the schema gives it more than {DEFAULTS_MAX:,} defaults"
            raise TriggerError(self._name, [_problem("too_many_defaults", message, ())])


_NONE: Final[JsonValue] = ["no default"]
"""A value of its own, compared by identity."""
