"""What this version compiles but can't run yet, refused when a definition is published.

A definition that uses such a part is valid: it parses, compiles and has its hash. It is only not accepted for running,
with one problem for each part it uses, so that nobody finds out in the middle of a run. Which step types have behaviour
is known to whoever has the behaviour, and handed in; the other parts are listed here until they have it.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from ductor.definitions.compile import Compiled
from ductor.definitions.documents.places import field_key
from ductor.definitions.errors import Place, Problem
from ductor.definitions.policies import Part
from ductor.definitions.steps import AnyStep

STEP_PARTS: Final = ("lease",)
"""Fields of steps without behaviour; a step that leaves them at their default does not use them."""

DEFINITION_PARTS: Final = ("lease",)
"""Fields of definitions without behaviour."""

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
    problems = [
        _problem(compiled, f"`{part}` of the definition compiles but can't run in this version", part)
        for part in _used(manifest, DEFINITION_PARTS)
    ]
    for step in manifest.steps:
        problems.extend(_refuse_step(compiled, step, runnable_types))
    for step in manifest.defer:
        refused = list(_refuse_step(compiled, step, runnable_types))
        if not refused and step.type_name not in defer_types:
            message = f"step `{step.ref}` has type `{step.type_name}`, which can't run under `defer` in this version"
            refused.append(_problem(compiled, message, field_key(step.ref, "type")))
        problems.extend(refused)
    return problems


def _refuse_step(compiled: Compiled, step: AnyStep, runnable_types: AbstractSet[str]) -> Iterator[Problem]:
    if step.type_name not in runnable_types:
        message = f"step `{step.ref}` has type `{step.type_name}`, which compiles but can't run in this version"
        yield _problem(compiled, message, field_key(step.ref, "type"))
    for part in _used(step, STEP_PARTS):
        message = f"step `{step.ref}` has `{part}`, which compiles but can't run in this version"
        yield _problem(compiled, message, field_key(step.ref, part))


def _used(part: Part, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if getattr(part, name) not in (None, ()):
            yield name


def _problem(compiled: Compiled, message: str, key: str) -> Problem:
    place = compiled.places.get(key) or Place(path=key)
    return Problem(code="unsupported", message=message, place=place)
