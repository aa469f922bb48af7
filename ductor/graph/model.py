"""What a picture of a workflow shows, whatever it is drawn with."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from ductor.definitions.durations import format_duration_ms
from ductor.definitions.model import Definition, Edge
from ductor.definitions.steps import (
    AnyStep,
    ApprovalStep,
    ConditionalStep,
    EventSetStep,
    HumanLoopStep,
    RuleStep,
    SubworkflowStep,
    TaskStep,
    TransformStep,
    WaitStep,
)
from ductor.definitions.steps.step import WorkerStep
from ductor.graph.marks import NodeMark, RunMarks

EdgeKind = Literal["plain", "choice", "otherwise"]
OUTCOME_ORDER: Final = ("success", "true", "approved", "false", "rejected", "error", "timeout", "done")


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """A step: what it is called, what it does, and what is particular about it. `mark` is set for a run."""

    ref: str
    title: str
    type_name: str
    detail: str = ""
    notes: tuple[str, ...] = ()
    is_defer: bool = False
    mark: NodeMark | None = None


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge. `condition` is the CEL of a choice; `taken` is None where no run is drawn or its source is not
    settled. `text` stands on it in the place of its outcome and condition.
    """

    source: str
    target: str
    outcome: str
    kind: EdgeKind = "plain"
    condition: str = ""
    taken: bool | None = None
    text: str = ""

    @property
    def label(self) -> str:
        """The outcome, and the condition where there is one."""
        if self.text:
            return self.text
        if self.kind == "plain":
            return self.outcome
        condition = "otherwise" if self.kind == "otherwise" else self.condition
        return condition if self.outcome == "success" else f"{self.outcome}: {condition}"


class WorkflowGraph(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow. Nodes stand in the order of the definition given, defers last; edges by source, outcome and
    choice.
    """

    name: str
    version: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    run: RunMarks | None = None

    def outgoing(self) -> dict[str, list[GraphEdge]]:
        """The edges by source."""
        found: dict[str, list[GraphEdge]] = {node.ref: [] for node in self.nodes}
        for edge in self.edges:
            found[edge.source].append(edge)
        return found


def graph_of(definition: Definition, run: RunMarks | None = None) -> WorkflowGraph:
    """The picture of a definition or manifest, or of `run`, a run of it."""
    marks = run.nodes if run else {}
    steps = ((step, False) for step in definition.steps)
    defers = ((step, True) for step in definition.defer)
    nodes = tuple(
        GraphNode(
            ref=step.ref,
            title=step.name or step.ref,
            type_name=step.type_name,
            detail=_detail(step),
            notes=tuple(_notes(step)),
            is_defer=is_defer,
            mark=(marks.get(step.ref) or NodeMark(ref=step.ref)) if run else None,
        )
        for step, is_defer in (*steps, *defers)
    )
    place = {node.ref: number for number, node in enumerate(nodes)}

    def position(edge: Edge) -> tuple[int, int, int, int]:
        group = -1 if edge.group is None else edge.group
        return place[edge.source], OUTCOME_ORDER.index(edge.outcome), group, edge.order

    return WorkflowGraph(
        name=definition.name,
        version=definition.version,
        nodes=nodes,
        edges=tuple(_graph_edge(edge, marks.get(edge.source)) for edge in sorted(definition.edges, key=position)),
        run=run,
    )


def _graph_edge(edge: Edge, source: NodeMark | None) -> GraphEdge:
    kind: EdgeKind = "plain" if edge.group is None else "choice" if edge.when is not None else "otherwise"
    taken = None
    if source is not None and source.settled_at_us:
        fits = edge.outcome in (source.outcome, "done") or (source.status == "skipped" and edge.outcome == "success")
        taken = fits and edge.to in source.taken
    return GraphEdge(
        source=edge.source, target=edge.to, outcome=edge.outcome, kind=kind, condition=edge.when or "", taken=taken
    )


def _detail(step: AnyStep) -> str:
    text = ""
    match step:
        case TaskStep():
            text = step.task
        case ConditionalStep():
            text = step.when
        case RuleStep():
            text = f"{len(step.rules)} rule{'s' if len(step.rules) != 1 else ''}, hit {step.hit}"
        case TransformStep():
            text = f"ends the run as {step.end}" if step.end else "computes a value"
        case SubworkflowStep():
            text = step.definition or "inline steps"
        case WaitStep():
            text = _awaited(step)
        case ApprovalStep() | HumanLoopStep():
            text = step.title
        case EventSetStep():
            text = ", ".join(event.name for event in step.events)
    return text


def _awaited(step: WaitStep) -> str:
    if step.duration_ms is not None:
        return format_duration_ms(step.duration_ms)
    named = {"signal": step.signal_name, "event": step.event, "cron": step.cron, "until": step.until_expr}
    return next((f"{kind} {value}" for kind, value in named.items() if value is not None), "a point in time")


def _notes(step: AnyStep) -> Iterator[str]:
    if step.name:
        yield step.ref
    if step.join != "all":
        yield f"join {step.join}{', cancels the rest' if step.cancel_rest else ''}"
    if step.run_if is not None:
        yield f"if {step.run_if}"
    if isinstance(step, WorkerStep):
        attempts = max((policy.max_attempts for policy in step.retry), default=1)
        if attempts > 1:
            yield f"up to {attempts} attempts"
        if step.timeout.attempt_ms is not None:
            yield f"timeout {format_duration_ms(step.timeout.attempt_ms)}"
        if step.repeat is not None:
            yield f"repeats until {step.repeat.until}"
    if step.cancels:
        yield f"cancels {', '.join(step.cancels)}"
    if step.compensate is not None:
        yield f"undo {step.compensate.task or 'child'}"
