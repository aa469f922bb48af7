"""When each step of a run was at work, and when it waited: read from the journal, without a clock. Pure but for
`read_timeline`.

A node's time is cut into spans. An attempt is two of them: `queued`, from its dispatch until a worker began, and
`attempt`, while the worker was at it. A `wait` is a node that was parked: for a person, an event, its next try. A
`child` is a run that the node has started. What the tick carries out at once is a span of no length. Workers have
clocks of their own, so what they tell is kept within the rows that hold it.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    ChildStarted,
    NodeParked,
    NodeSettled,
    NodeStatus,
    RunContinued,
    RunEnded,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    RunStatus,
    ScatterStarted,
)
from ductor.reports.table import Column, ReportTable
from ductor.reports.tables import moment

if TYPE_CHECKING:
    from ductor.client import Client

OPEN_STATUSES: Final = frozenset({"pending", "running", "waiting", "paused"})
SpanKind = Literal["queued", "attempt", "wait", "child", "instant"]
_COLUMNS: Final = (
    Column("step", "text"),
    Column("status", "text"),
    Column("span", "text"),
    Column("detail", "text"),
    Column("outcome", "text"),
    Column("began_at", "timestamp"),
    Column("ended_at", "timestamp"),
    Column("duration_ms", "real"),
)


class Span(msgspec.Struct, kw_only=True):
    """A time in which a node was in one condition.

    Attributes:
        ended_at_us: None as long as it lasts.
        outcome: of an attempt or a child, empty for none yet.
        detail: the number of the attempt, what is waited for, the child run, the type of an error.
    """

    kind: SpanKind
    began_at_us: int
    ended_at_us: int | None = None
    outcome: str = ""
    detail: str = ""

    def length_us(self, end_us: int) -> int:
        """How long it took; up to `end_us` if it lasts."""
        return max(0, (end_us if self.ended_at_us is None else self.ended_at_us) - self.began_at_us)


class TimelineNode(msgspec.Struct, kw_only=True):
    """A node of the run: a step, a child of a scatter, or an undo."""

    ref: str
    status: NodeStatus = "pending"
    spans: list[Span] = msgspec.field(default_factory=list)


class Timeline(msgspec.Struct, kw_only=True):
    """A run in time. `nodes` come in the order in which they began; skipped ones have no time and are only counted.

    Attributes:
        ended_at_us: of an open run, the time at which it was looked at.
        pauses: from when until when the run stood still; None for until now.
    """

    run_id: str
    definition: str = ""
    status: RunStatus = "running"
    started_at_us: int = 0
    ended_at_us: int = 0
    nodes: list[TimelineNode] = msgspec.field(default_factory=list)
    skipped: int = 0
    pauses: list[tuple[int, int | None]] = msgspec.field(default_factory=list)

    def table(self) -> ReportTable:
        """Every span as a row."""
        rows = [
            (
                node.ref,
                node.status,
                span.kind,
                span.detail,
                span.outcome,
                moment(span.began_at_us),
                moment(span.ended_at_us),
                None if span.ended_at_us is None else span.length_us(self.ended_at_us) / 1_000,
            )
            for node in self.nodes
            for span in node.spans
        ]
        return ReportTable(name="timeline", columns=_COLUMNS, rows=tuple(rows))


async def read_timeline(client: "Client", run_id: str) -> Timeline:
    """The timeline of a run as it is now.

    Raises:
        RunNotFoundError: there is no such run.
    """
    handle = client.run(run_id)
    view = await handle.status(follows=False)
    history = await handle.history(follows=False)
    now_us = await client.engine.store.now_us()
    return timeline_of(run_id, view.status, [(row.at_us, row.events) for row in history], now_us=now_us)


def timeline_of(
    run_id: str, status: RunStatus, rows: Iterable[tuple[int, Sequence[AnyEvent]]], *, now_us: int = 0
) -> Timeline:
    """Read a run's journal.

    Args:
        status: what the run is now.
        rows: time in microseconds and events of each row, in order from version 1.
        now_us: until when an open run has lasted; at least until its last row.
    """
    reading = _Reading(Timeline(run_id=run_id, status=status))
    for at_us, events in rows:
        reading.take(at_us, events)
    timeline = reading.timeline
    if status in OPEN_STATUSES:
        timeline.ended_at_us = max(timeline.ended_at_us, now_us)
    return timeline


class _Reading:
    """A timeline as far as it is read: which span of each node is open."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._nodes: dict[str, TimelineNode] = {}
        self._open: dict[str, Span] = {}
        self._numbers: dict[str, str] = {}

    def take(self, at_us: int, events: Sequence[AnyEvent]) -> None:
        """The next row."""
        timeline = self.timeline
        timeline.started_at_us = timeline.started_at_us or at_us
        timeline.ended_at_us = max(timeline.ended_at_us, at_us)
        for event in events:
            if isinstance(event, RunStarted):
                timeline.definition = event.definition
            elif isinstance(event, RunPaused):
                timeline.pauses.append((at_us, None))
            elif isinstance(event, RunResumed):
                self._end_pause(at_us)
            elif isinstance(event, RunEnded | RunContinued):
                self._end_run(at_us)
            else:
                self._take(at_us, event)

    def _take(self, at_us: int, event: AnyEvent) -> None:
        match event:
            case AttemptDispatched():
                self._begin(event.node, Span(kind="queued", began_at_us=at_us), "running")
                self._numbers[event.node] = f"attempt {event.generation}"
            case AttemptFinished():
                self._finish_attempt(at_us, event)
            case NodeParked():
                self._begin(event.node, Span(kind="wait", began_at_us=at_us, detail=event.waiting), "waiting")
            case ChildStarted():
                span = Span(kind="child", began_at_us=at_us, detail=f"run {event.run_id}")
                self._begin(event.node, span, "waiting")
            case ScatterStarted():
                span = Span(kind="wait", began_at_us=at_us, detail=f"{event.total} children")
                self._begin(event.node, span, "waiting")
            case ChildReported():
                child = self._open.get(event.node)
                if child is not None and child.kind == "child" and event.status != "checkpoint":
                    child.outcome = event.status
                    self._close(event.node, at_us)
            case NodeSettled():
                self._settle(at_us, event)
            case RunReopened():
                for reset in event.nodes:
                    if reset.node in self._nodes:
                        self._nodes[reset.node].status = "pending"

    def _begin(self, ref: str, span: Span, status: NodeStatus) -> None:
        self._close(ref, span.began_at_us)
        node = self._node(ref)
        node.status = status
        node.spans.append(span)
        self._open[ref] = span

    def _close(self, ref: str, at_us: int) -> None:
        span = self._open.pop(ref, None)
        if span is None:
            return
        span.ended_at_us = max(at_us, span.began_at_us)
        if span.kind == "queued":  # no result came of it, so nobody knows when a worker began
            span.kind, span.detail, span.outcome = "attempt", self._numbers.get(ref, ""), span.outcome or "abandoned"

    def _finish_attempt(self, at_us: int, event: AttemptFinished) -> None:
        """The queued span becomes two: until the worker began, and what it did."""
        queued = self._open.pop(event.node, None)
        if queued is None or queued.kind != "queued":
            if queued is not None:
                self._open[event.node] = queued
            return
        dispatched = queued.began_at_us
        began = min(max(event.started_at_us or dispatched, dispatched), at_us)
        ended = min(max(event.finished_at_us or at_us, began), at_us)
        queued.ended_at_us = began
        spans = self._node(event.node).spans
        if began == dispatched:
            spans.remove(queued)
        number = self._numbers.get(event.node, "")
        failure = f", {event.error.type}" if event.error is not None and event.error.type else ""
        spans.append(
            Span(
                kind="attempt",
                began_at_us=began,
                ended_at_us=ended,
                outcome=event.outcome,
                detail=number + failure,
            )
        )

    def _settle(self, at_us: int, event: NodeSettled) -> None:
        if event.status == "skipped" and event.node not in self._nodes:
            self.timeline.skipped += 1
            return
        node = self._node(event.node)
        was_open = event.node in self._open
        self._close(event.node, at_us)
        node.status = event.status
        if not node.spans and not was_open:
            node.spans.append(Span(kind="instant", began_at_us=at_us, ended_at_us=at_us, outcome=event.status))

    def _end_pause(self, at_us: int) -> None:
        pauses = self.timeline.pauses
        if pauses and pauses[-1][1] is None:
            pauses[-1] = (pauses[-1][0], at_us)

    def _end_run(self, at_us: int) -> None:
        for ref in list(self._open):
            self._close(ref, at_us)
        self._end_pause(at_us)

    def _node(self, ref: str) -> TimelineNode:
        node = self._nodes.get(ref)
        if node is None:
            node = self._nodes[ref] = TimelineNode(ref=ref)
            self.timeline.nodes.append(node)
        return node
