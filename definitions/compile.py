"""From a definition to its manifest, or every problem at once."""

from collections.abc import Mapping

import msgspec

from ductor.definitions.check import check_definition
from ductor.definitions.documents.places import NO_PLACES, PlaceLookup
from ductor.definitions.documents.report import ProblemList, in_document_order
from ductor.definitions.errors import DefinitionError, Place, Problem
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.graph import Graph, sorted_edges
from ductor.definitions.limits import DEFAULT_LIMITS, Limits
from ductor.definitions.manifest import (
    CanonicalizationError,
    CompiledManifest,
    ManifestError,
    decode_manifest,
    encode_manifest,
    manifest_hash,
)
from ductor.definitions.model import Body, Definition, Edge
from ductor.definitions.parse import Draft, TextFormat, parse_document, read_drafts
from ductor.definitions.steps import AnyStep


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled definition.

    Attributes:
        canonical: the canonical JSON of the manifest; what is stored.
        places: where things stand in the document, for errors at run time and of publishing.
    """

    manifest: CompiledManifest
    manifest_hash: str
    canonical: bytes
    places: PlaceLookup


def compile_text(
    text: str | bytes,
    *,
    file: str = "",
    text_format: TextFormat | None = None,
    functions: FunctionLibrary | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Compiled]:
    """Compile every definition of a text.

    Args:
        text: YAML or JSON; bytes are UTF-8.
        file: its name, for errors; one that ends in `.json` makes it JSON.
        text_format: what it is, where the name does not tell.
        functions: the function library that expressions may use.

    Raises:
        DefinitionError: with every problem of the text.
    """
    problems = ProblemList(limits)
    drafts = read_drafts(text, problems, file=file, text_format=text_format, limits=limits)
    names: dict[str, Place] = {}
    for draft in drafts:
        _check_draft(draft, problems, functions, limits)
        _check_name(draft, problems, names)
    if problems:
        raise DefinitionError(in_document_order(problems))
    return [_finish(draft.definition, draft.places, limits) for draft in drafts if draft.definition is not None]


def compile_document(
    document: Mapping[str, object],
    *,
    functions: FunctionLibrary | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Compiled:
    """Compile a document made of Python values, as `ductor.definitions.build` makes them.

    Raises:
        DefinitionError: with every problem.
    """
    problems = ProblemList(limits)
    draft = parse_document(document, problems, limits=limits)
    _check_draft(draft, problems, functions, limits)
    if problems or draft.definition is None:
        raise DefinitionError(in_document_order(problems))
    return _finish(draft.definition, draft.places, limits)


def compile_definition(
    definition: Definition, *, functions: FunctionLibrary | None = None, limits: Limits = DEFAULT_LIMITS
) -> CompiledManifest:
    """Return the manifest of a definition in normal form.

    Raises:
        DefinitionError: with every problem.
    """
    problems = check_definition(definition, functions=functions, limits=limits)
    if problems:
        raise DefinitionError(problems)
    return _finish(definition, NO_PLACES, limits).manifest


def _check_draft(draft: Draft, problems: list[Problem], functions: FunctionLibrary | None, limits: Limits) -> None:
    if draft.definition is not None:
        check_definition(
            draft.definition,
            problems=problems,
            places=draft.places,
            functions=functions,
            broken=draft.broken,
            unsound=draft.unsound,
            limits=limits,
        )


def _check_name(draft: Draft, problems: list[Problem], names: dict[str, Place]) -> None:
    """A file may hold several definitions, but each name once."""
    if draft.definition is None:
        return
    name = draft.definition.name
    place = draft.places.get("name") or Place(path="name")
    before = names.setdefault(name, place)
    if before is not place:
        message = f"the name `{name}` is taken by the definition in line {before.line}"
        problems.append(Problem(code="duplicate_name", message=message, place=place))


def _finish(definition: Definition, places: PlaceLookup, limits: Limits) -> Compiled:
    """Order a checked definition, and take its manifest from its canonical JSON, so that both always agree."""
    try:
        canonical = encode_manifest(_arrange(definition))
        manifest = decode_manifest(canonical)
    except CanonicalizationError as error:
        raise DefinitionError([Problem(code=error.code, message=error.reason)]) from error
    except ManifestError as error:
        raise DefinitionError([Problem(code="invalid_value", message=error.reason)]) from error
    if len(canonical) > limits.manifest_bytes:
        message = f"the manifest has {len(canonical):,} bytes, more than {limits.manifest_bytes:,}"
        raise DefinitionError([Problem(code="limit_exceeded", message=f"{message} (limit `manifest_bytes`)")])
    return Compiled(manifest=manifest, manifest_hash=manifest_hash(canonical), canonical=canonical, places=places)


def _arrange(definition: Definition) -> CompiledManifest:
    """Steps into Kahn order, edges sorted, the same for each body."""
    fields = {field: getattr(definition, field) for field in Definition.__struct_fields__}
    steps, entrypoints = _kahn_order(definition.steps, definition.edges)
    fields |= {"steps": steps, "edges": sorted_edges(definition.edges), "entrypoints": entrypoints}
    fields["bodies"] = {
        key: Body(steps=_kahn_order(body.steps, body.edges)[0], edges=sorted_edges(body.edges), output=body.output)
        for key, body in definition.bodies.items()
    }
    return CompiledManifest(**fields)


def _kahn_order(steps: tuple[AnyStep, ...], edges: tuple[Edge, ...]) -> tuple[tuple[AnyStep, ...], tuple[str, ...]]:
    graph = Graph([step.ref for step in steps], edges)
    ordered = tuple(steps[number] for number in graph.order())
    entries = set(graph.entrypoints())
    return ordered, tuple(step.ref for step in ordered if step.ref in entries)
