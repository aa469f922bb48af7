"""JSON Schema 2020-12, as definitions use it: for triggers and for replies.

Schemas are data of tenants, so three things are refused: references that leave the schema, because nothing is fetched;
regular expressions that only a backtracking matcher can run; and schemas that may look at one value again and again,
because the time of either is not bounded. Formats are checked, not only noted.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, TypeAlias

import jsonschema_rs

from ductor.definitions.schema_cost import cost_fault
from ductor.definitions.values import JsonObject, JsonValue

PROBLEMS_MAX: Final = 50
"""Problems of one value, or of one schema, that are reported."""

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

JsonPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from a value to something in it."""

_REFERENCES: Final = ("$ref", "$dynamicRef")


def schema_problems(source: JsonValue) -> list[tuple[JsonPath, str]]:
    """What is wrong with a JSON Schema: path and message of each; empty when `Schema` takes it."""
    if not isinstance(source, (dict, bool)):
        return [((), "a JSON Schema is a map, true or false")]
    found = list(_refused(source))
    found.extend(_limited(_meta_validator().iter_errors(source)))
    if not found:
        try:
            _validator(source)
        except jsonschema_rs.ValidationError as error:
            found.append((tuple(error.instance_path), error.message))
        except ValueError as error:
            found.append(((), str(error)))
    if not found and (fault := cost_fault(source)):
        found.append(((), fault))
    return found[:PROBLEMS_MAX]


class Schema:
    """A compiled JSON Schema; reusable."""

    def __init__(self, source: JsonObject | bool) -> None:
        """Compile a schema in which `schema_problems` finds nothing.

        Raises:
            ValueError: it is no valid schema.
        """
        self._validator = _validator(source)

    def problems(self, value: JsonValue) -> list[tuple[JsonPath, str]]:
        """What keeps a value from fitting: path and message of each, at most `PROBLEMS_MAX`."""
        return _limited(self._validator.iter_errors(value))


def show_path(path: JsonPath) -> str:
    """A path as text, as `items[0].sku`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


@cache
def _meta_validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({"$ref": DRAFT}, offline=True)


def _validator(source: JsonObject | bool) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(
        source, validate_formats=True, offline=True, pattern_options=jsonschema_rs.RegexOptions()
    )


def _limited(errors: Iterable[jsonschema_rs.ValidationError]) -> list[tuple[JsonPath, str]]:
    found: list[tuple[JsonPath, str]] = []
    for error in errors:
        found.append((tuple(error.instance_path), error.message))
        if len(found) == PROBLEMS_MAX:
            break
    return found


def _refused(source: JsonValue) -> Iterator[tuple[JsonPath, str]]:
    stack: list[tuple[JsonPath, JsonValue]] = [((), source)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if key in _REFERENCES and isinstance(item, str) and not item.startswith("#"):
                    yield (*path, key), f"the reference `{item}` leaves the schema; nothing is fetched"
                if key == "$id" and path and isinstance(item, str):
                    yield (*path, key), "only the schema as a whole may have an `$id`"
                if key == "$schema" and item != DRAFT:
                    yield (*path, key), f"only JSON Schema 2020-12 is understood ({DRAFT})"
                stack.append(((*path, key), item))
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))
