"""The runtime form of a manifest: what a tick looks up, compiled once and then only read.

Everything a tick asks about a step is an attribute or one dictionary lookup; nothing here is computed twice. Inline
bodies of scatters and subworkflows are programs of their own, beside it: each is carried out by child runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import groupby

import msgspec

from ductor.definitions.derived_nodes import DerivedNodes, child_template, undo_template
from ductor.definitions.documents.places import NO_PLACES, PlaceLookup, edge_place_key, field_key
from ductor.definitions.errors import Place
from ductor.definitions.expressions import Expression, FunctionLibrary, Template, compile_expression, compile_template
from ductor.definitions.expressions.correlation import Correlation, correlation_of
from ductor.definitions.graph import Graph
from ductor.definitions.manifest import CompiledManifest, encode_manifest, manifest_hash
from ductor.definitions.model import Edge, MessageHandler
from ductor.definitions.program_bodies import BodySource, body_key, body_sources, child_definitions
from ductor.definitions.program_node import ChoiceGroup, ProgramNode, Route
from ductor.definitions.steps import AnyStep, GatherStep, ScatterStep
from ductor.definitions.straight import straight_ways
from ductor.definitions.triggers import TriggerSchema
from ductor.definitions.values import JsonValue
from ductor.definitions.variables import (
    CHOICE_VARIABLES,
    EVENT_VARIABLES,
    START_VARIABLES,
    STEP_VARIABLES,
    field_variables,
)

__all__ = ["HANDLERS", "ChoiceGroup", "Program", "ProgramHandler", "ProgramNode", "Route", "load_program"]

HANDLERS = "@on"
"""Stands for the handlers of the definition's `on` where a step is named."""


@dataclass(frozen=True, slots=True)
class ProgramHandler:
    """What the definition does with a message that it hears at any time (`on`).

    Attributes:
        index: its place in `on`.
        signal, event: the name it hears; one of them is None.
        correlation: how an event finds it without being tried on every run.
    """

    index: int
    signal: str | None
    event: str | None
    match: Expression | None
    correlation: Correlation | None
    effects: Mapping[str, Template]
    cancels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A manifest ready to run.

    Attributes:
        nodes: steps in Kahn order, then the steps of `defer`, by ref.
        entrypoints, defers: refs, in order of position.
        output: of the run; None means the outputs of the succeeded steps among `default_outputs`, by ref.
        default_outputs: the steps without outgoing edges.
        trigger: what a trigger must fit.
        patched_by: by context key, the steps whose effects replace it, and `@on` for handlers.
        bodies: all inline bodies of the manifest, those within others included, by their key in the manifest.
        body: which of them this program is; empty for the definition itself.
        child_definitions: names of the definitions that runs of this manifest may start, its bodies included.
        repeat_until, lease_key: of the definition, where it has them.
        straight_ways: by ref, the step that a step leads straight to (`ductor.definitions.straight`).
    """

    manifest: CompiledManifest
    manifest_hash: str
    nodes: Mapping[str, ProgramNode]
    entrypoints: tuple[str, ...]
    defers: tuple[str, ...]
    output: Template | None
    default_outputs: tuple[str, ...]
    search_attributes: Template | None
    trigger: TriggerSchema
    handlers: tuple[ProgramHandler, ...]
    patched_by: Mapping[str, tuple[str, ...]]
    derived: DerivedNodes
    bodies: Mapping[str, "Program"]
    body: str
    child_definitions: tuple[str, ...]
    repeat_until: Expression | None
    lease_key: Template | None
    straight_ways: Mapping[str, ProgramNode]

    def node(self, ref: str) -> ProgramNode:
        """A step, a scatter's child or an undo by its name. Raises KeyError where there is none such."""
        node = self.nodes.get(ref)
        return self.derived.node(ref) if node is None else node

    def carried_out_by(self, body: str) -> "Program":
        """The program of a run of this manifest that carries out `body`; empty for the definition itself."""
        return self.bodies[body] if body else self


def load_program(
    manifest: CompiledManifest,
    *,
    places: PlaceLookup | None = None,
    functions: FunctionLibrary | None = None,
) -> Program:
    """Compile a manifest for running.

    Args:
        manifest: as `compile_definition` gives it, or decoded from storage.
        places: where things stand in the document; errors of expressions name it. Without it they name the field.
        functions: the function library of the host.

    Raises:
        ExpressionSyntaxError: an expression does not compile, as when the host lost a function of its library.
    """
    digest = manifest_hash(encode_manifest(manifest))
    bodies: dict[str, Program] = {}
    lookup = NO_PLACES if places is None else places
    names = child_definitions(manifest)
    program = _Loader(BodySource("", manifest, frozenset()), digest, lookup, functions, bodies).program(names)
    for source in body_sources(manifest):
        bodies[source.key] = _Loader(source, digest, lookup, functions, bodies).program(names)
    return program


class _Loader:
    """Builds the program of a definition, or of one inline body."""

    def __init__(
        self,
        source: BodySource,
        digest: str,
        places: PlaceLookup,
        functions: FunctionLibrary | None,
        bodies: Mapping[str, Program],
    ) -> None:
        manifest = source.manifest
        self._source = source
        self._hash = digest
        self._bodies = bodies
        self._prefix = f"{source.key}/" if source.key else ""
        self._manifest = manifest
        self._places = places
        self._functions = functions
        self._graph = Graph([step.ref for step in manifest.steps], manifest.edges)
        self._edges: dict[str, list[Edge]] = {}
        for edge in manifest.edges:
            self._edges.setdefault(edge.source, []).append(edge)
        self._raising = {
            step.scatter_ref for step in manifest.steps if isinstance(step, GatherStep) and step.strategy == "raise"
        }

    def program(self, child_definitions: tuple[str, ...]) -> Program:
        manifest, graph = self._manifest, self._graph
        nodes = {step.ref: self._node(step, number) for number, step in enumerate(manifest.steps)}
        for offset, step in enumerate(manifest.defer):
            nodes[step.ref] = self._node(step, len(manifest.steps) + offset, is_defer=True)
        output, repeat, lease = manifest.output, manifest.repeat, manifest.lease
        output_key = f"steps.{self._source.key}.do.output" if self._source.key else "output"
        return Program(
            manifest=manifest,
            manifest_hash=self._hash,
            nodes=nodes,
            entrypoints=manifest.entrypoints,
            defers=tuple(step.ref for step in manifest.defer),
            output=None if output is msgspec.UNSET else self._template(output_key, output, STEP_VARIABLES),
            default_outputs=tuple(ref for ref in graph.refs if not graph.successors[graph.numbers[ref]]),
            search_attributes=(
                self._template("search_attributes", manifest.search_attributes, START_VARIABLES)
                if manifest.search_attributes
                else None
            ),
            trigger=TriggerSchema(manifest),
            handlers=tuple(self._handler(index, handler) for index, handler in enumerate(manifest.on)),
            patched_by=_patched_by(manifest),
            derived=DerivedNodes(nodes),
            bodies=self._bodies,
            body=self._source.key,
            child_definitions=child_definitions,
            repeat_until=None if repeat is None else self._expression("repeat.until", repeat.until, STEP_VARIABLES),
            lease_key=None if lease is None else self._template("lease.key", lease.key, START_VARIABLES),
            straight_ways=straight_ways(manifest, nodes),
        )

    def _node(self, step: AnyStep, position: int, *, is_defer: bool = False) -> ProgramNode:
        graph = self._graph
        expressions: dict[str, Expression] = {}
        templates: dict[str, Template] = {}
        for field in step.compiled_fields():
            key, variables = field_key(f"{self._prefix}{step.ref}", field.path), field_variables(field)
            if field.kind == "expression":
                expressions[field.path] = self._expression(key, str(field.value), variables)
            else:
                templates[field.path] = self._template(key, field.value, variables)
        sources = () if is_defer else graph.predecessors[position]
        targets = () if is_defer else graph.successors[position]
        target_refs = tuple(graph.refs[number] for number in targets)
        routes = {} if is_defer else self._routes(step.ref)
        body = body_key(step, self._prefix)
        node = ProgramNode(
            ref=step.ref,
            step=step,
            position=position,
            is_defer=is_defer,
            sources=len(sources),
            targets=target_refs,
            routes=routes,
            plain_edges=_plain_edges(step.outcomes, routes, target_refs),
            predecessors=tuple(graph.refs[number] for number in sources),
            ancestors=graph.ancestors(step.ref) if step.cancel_rest and not is_defer else frozenset(),
            expressions=expressions,
            templates=templates,
            run_if=expressions.get("run_if"),
            effects={key: templates[f"effects.{key}"] for key in step.effects},
            input=templates.get("input"),
            sends=bool(step.emit or step.signal),
            correlations=self._correlations(expressions),
            body=body,
            child=child_template(step, body, expressions, templates) if isinstance(step, ScatterStep) else None,
            is_raising=step.ref in self._raising,
        )
        return replace(node, undo=undo_template(node)) if step.compensate is not None else node

    def _handler(self, index: int, handler: MessageHandler) -> ProgramHandler:
        key = f"on[{index}]"
        match = handler.match
        return ProgramHandler(
            index=index,
            signal=handler.signal,
            event=handler.event,
            match=None if match is None else self._expression(f"{key}.match", match, EVENT_VARIABLES),
            correlation=None if match is None else correlation_of(match, self._functions),
            effects={
                name: self._template(f"{key}.effects.{name}", value, EVENT_VARIABLES)
                for name, value in handler.effects.items()
            },
            cancels=handler.cancels,
        )

    def _correlations(self, expressions: Mapping[str, Expression]) -> dict[str, Correlation]:
        found: dict[str, Correlation] = {}
        for path, expression in expressions.items():
            if path.endswith("match"):
                correlation = correlation_of(expression.source, self._functions)
                if correlation is not None:
                    found[path] = correlation
        return found

    def _routes(self, ref: str) -> dict[str, Route]:
        routes: dict[str, Route] = {}
        for outcome, edges in groupby(self._edges.get(ref, ()), key=lambda edge: edge.outcome):
            numbers: list[int] = []
            groups: dict[int, list[tuple[Expression | None, str]]] = {}
            for edge in edges:
                if edge.group is None:
                    numbers.append(self._graph.numbers[edge.to])
                else:
                    groups.setdefault(edge.group, []).append((self._condition(edge), edge.to))
            routes[outcome] = Route(
                targets=tuple(self._graph.refs[number] for number in sorted(set(numbers))),
                groups=tuple(ChoiceGroup(branches=tuple(branches)) for branches in groups.values()),
            )
        return routes

    def _condition(self, edge: Edge) -> Expression | None:
        return (
            None
            if edge.when is None
            else self._expression(edge_place_key(edge, self._prefix), edge.when, CHOICE_VARIABLES)
        )

    def _expression(self, key: str, source: str, variables: frozenset[str]) -> Expression:
        names = variables | self._source.extra if self._source.extra else variables
        return compile_expression(source, place=self._place(key), variables=names, functions=self._functions)

    def _template(self, key: str, value: JsonValue, variables: frozenset[str]) -> Template:
        names = variables | self._source.extra if self._source.extra else variables
        return compile_template(value, place=self._place(key), variables=names, functions=self._functions)

    def _place(self, key: str) -> Place:
        return self._places.get(key) or Place(path=key)


def _patched_by(manifest: CompiledManifest) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    sources = [(step.ref, step.effects) for step in (*manifest.steps, *manifest.defer)]
    for ref, effects in (*sources, *((HANDLERS, handler.effects) for handler in manifest.on)):
        for key in effects:
            found[key] = (*found.get(key, ()), ref)
    return found


def _plain_edges(
    outcomes: tuple[str, ...], routes: Mapping[str, Route], targets: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Targets taken and untaken for each outcome under which there is no choice group."""
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {"": ((), targets)}
    for outcome in outcomes:
        under = [routes[key] for key in (outcome, "done") if key in routes]
        if not any(route.groups for route in under):
            taken = {target for route in under for target in route.targets}
            found[outcome] = (
                tuple(target for target in targets if target in taken),
                tuple(target for target in targets if target not in taken),
            )
    return found
