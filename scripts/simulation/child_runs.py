"""What definitions say of the runs that their runs start."""

from collections.abc import Iterator, Mapping
from typing import Final

from ductor.definitions.values import JsonObject, JsonValue

MOST_ITEMS: Final = 7
"""Items of a random scatter at most."""


def runs_of(document: JsonObject, known: Mapping[str, int]) -> int:
    """How many runs a run of a document makes at most, itself included, redrives left aside.

    Args:
        known: the same of the definitions that it names.
    """
    repeat = document.get("repeat")
    return _rounds(repeat) * (1 + sum(_started(step, known) for step in _steps(document)))


def named_definitions(document: JsonValue) -> Iterator[str]:
    """The definitions that a document starts runs of."""
    if isinstance(document, dict):
        if document.get("type") == "subworkflow" and isinstance(name := document.get("definition"), str):
            yield name
        for value in document.values():
            yield from named_definitions(value)
    elif isinstance(document, list):
        for value in document:
            yield from named_definitions(value)


def _started(step: JsonObject, known: Mapping[str, int]) -> int:
    """Runs that a step starts, with those that they start."""
    body = step.get("do")
    if step["type"] == "subworkflow":
        runs = known[str(step["definition"])] if "definition" in step else runs_of(_object(body), known)
        return _rounds(step.get("repeat")) * runs
    if step["type"] != "scatter":
        return 0
    child = _object(body)
    if "steps" in child:
        return MOST_ITEMS * runs_of(child, known)
    in_run_of_its_own = step.get("mode") == "child_workflow" and child["type"] == "task"
    return MOST_ITEMS * (1 if in_run_of_its_own else _started(child, known))


def _rounds(repeat: JsonValue) -> int:
    return int(str(repeat["max"])) if isinstance(repeat, dict) else 1


def _steps(document: JsonObject) -> list[JsonObject]:
    steps = document["steps"]
    assert isinstance(steps, list)
    return [_object(step) for step in steps]


def _object(value: JsonValue) -> JsonObject:
    assert isinstance(value, dict)
    return value
