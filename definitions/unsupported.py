"""What this version compiles but can't run yet, refused when a definition is published.

A definition that uses such a part is valid: it parses, compiles and has its hash. It is only not accepted for running,
with one problem for each part it uses, so that nobody finds out in the middle of a run. Which step types have behaviour
is known to whoever has the behaviour, and handed in.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from ductor.definitions.compile import Compiled
from ductor.definitions.documents.places import field_key
from ductor.definitions.errors import Place, Problem
from ductor.definitions.steps import AnyStep, ScatterStep

DEFER_TYPES: Final = frozenset({"task", "transform"})
"""Step types that have behaviour under `defer`, if they have any."""


def refuse_unsupported(
    compiled: Compiled, runnable_types: AbstractSet[str], *, defer_types: AbstractSet[str] = DEFER_TYPES
) -> list[Problem]:
    """Return one problem for each part of a definition that can't run, in the order of its manifest.

    Args:
        runnable_types: the step types that have behaviour.
        defer_types: those of them that may stand under `defer`.
    """
    manifest = compiled.manifest
    problems: list[Problem] = []
    for step in manifest.steps:
        problems.extend(_refuse_step(compiled, step, step.ref, runnable_types))
    for key, body in manifest.bodies.items():
        for step in body.steps:
            problems.extend(_refuse_step(compiled, step, f"{key}/{step.ref}", runnable_types))
    for step in manifest.defer:
        refused = list(_refuse_step(compiled, step, step.ref, runnable_types))
        if not refused and step.type_name not in defer_types:
            message = f"step `{step.ref}` has type `{step.type_name}`, which can't run under `defer` in this version"
            refused.append(_problem(compiled, message, field_key(step.ref, "type")))
        problems.extend(refused)
    return problems


def _refuse_step(
    compiled: Compiled, step: AnyStep, ref: str, runnable_types: AbstractSet[str], path: str = ""
) -> Iterator[Problem]:
    """`ref` begins with that of the body that the step stands in; `path` leads from there to a scatter's child."""
    name = f"the child of step `{ref}`" if path else f"step `{ref}`"
    if step.type_name not in runnable_types:
        message = f"{name} has type `{step.type_name}`, which compiles but can't run in this version"
        yield _problem(compiled, message, field_key(ref, f"{path}type"))
    if isinstance(step, ScatterStep) and step.do is not None:
        yield from _refuse_step(compiled, step.do, ref, runnable_types, "do.")


def _problem(compiled: Compiled, message: str, key: str) -> Problem:
    place = compiled.places.get(key) or Place(path=key)
    return Problem(code="unsupported", message=message, place=place)
