"""The inline bodies of a manifest, each as a definition of its own.

A body is carried out by a child run, in a scatter of either mode too: its steps may wait, join and fail as those of any
definition do. The run is pinned to the manifest that the body stands in, and names the body by its key there
(`outer/inner` for one within another). It has the manifest's constants; its trigger, context and, in a scatter, `item`,
`index` and `key` are given to it when it starts.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from ductor.definitions.graph import Graph
from ductor.definitions.manifest import CompiledManifest
from ductor.definitions.model import Body
from ductor.definitions.steps import AnyStep, ScatterStep, SubworkflowStep, WorkerStep
from ductor.definitions.steps.scatter import ITEM_NAMES
from ductor.definitions.values import JsonValue

CHILD_REF: Final = "do"
"""The only step of a body that was made of a single child step."""

_SCATTER_NAMES: Final = frozenset(ITEM_NAMES)


class BodySource(msgspec.Struct, frozen=True):
    """What a program is made of.

    Attributes:
        key: of the body in the manifest; empty for the definition itself.
        manifest: of the definition, or the body in the form of one.
        extra: names that its expressions see besides the usual ones.
    """

    key: str
    manifest: CompiledManifest
    extra: frozenset[str]


def body_key(step: AnyStep, prefix: str) -> str:
    """The key of the body that child runs of this step carry out; empty where there is none.

    Args:
        prefix: of the refs of the body that the step stands in, as `outer/`.
    """
    if isinstance(step, SubworkflowStep):
        return "" if step.definition is not None else f"{prefix}{step.ref}"
    if not isinstance(step, ScatterStep):
        return ""
    child = step.do
    if isinstance(child, SubworkflowStep):
        return "" if child.definition is not None else f"{prefix}{step.ref}/{CHILD_REF}"
    return f"{prefix}{step.ref}" if child is None or step.mode == "child_workflow" else ""


def body_sources(manifest: CompiledManifest) -> Iterator[BodySource]:
    """Every inline body of a manifest, those within others included."""
    holders = _steps_by_key(manifest)
    for key, body in manifest.bodies.items():
        in_scatter = isinstance(holders.get(key), ScatterStep)
        yield BodySource(key, _as_manifest(manifest, key, body), _SCATTER_NAMES if in_scatter else frozenset())
    for key, step in holders.items():
        if isinstance(step, ScatterStep) and step.mode == "child_workflow" and isinstance(step.do, WorkerStep):
            child = msgspec.structs.replace(step.do, ref=CHILD_REF, compensate=None)
            output: JsonValue = f"${{steps.{CHILD_REF}.output}}"
            body = Body(steps=(child,), output=output)
            yield BodySource(key, _as_manifest(manifest, key, body), _SCATTER_NAMES)


def carried_out(manifest: CompiledManifest, body: str) -> CompiledManifest:
    """What a run of the manifest carries out: the body, in the form of a definition, or for an empty key all of it."""
    if not body:
        return manifest
    return next(source.manifest for source in body_sources(manifest) if source.key == body)


def child_definitions(manifest: CompiledManifest) -> tuple[str, ...]:
    """Names of the definitions that runs of a manifest may start, sorted."""
    names: set[str] = set()
    for step in _steps_by_key(manifest).values():
        child = step.do if isinstance(step, ScatterStep) else step
        if isinstance(child, SubworkflowStep) and child.definition is not None:
            names.add(child.definition)
    return tuple(sorted(names))


def _steps_by_key(manifest: CompiledManifest) -> dict[str, AnyStep]:
    found = {step.ref: step for step in (*manifest.steps, *manifest.defer)}
    for key, body in manifest.bodies.items():
        found.update({f"{key}/{step.ref}": step for step in body.steps})
    return found


def _as_manifest(manifest: CompiledManifest, key: str, body: Body) -> CompiledManifest:
    graph = Graph([step.ref for step in body.steps], body.edges)
    return CompiledManifest(
        name=f"{manifest.name}/{key}",
        version=manifest.version,
        config=manifest.config,
        steps=body.steps,
        edges=body.edges,
        output=body.output,
        entrypoints=tuple(graph.entrypoints()),
    )
