"""What a run did to each step, read from its journal: what colours a picture and fills a table."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ErrorInfo,
    NodeParked,
    NodeSettled,
    NodeStatus,
    RunEnded,
    RunStatus,
    WaitingType,
)

UNDO_WORDS: Final[dict[str, str]] = {
    "running": "being undone",
    "waiting": "being undone",
    "succeeded": "undone",
    "failed": "not undone",
    "cancelled": "not undone",
}
"""What people read of a step whose undo has begun, by the undo's status."""


class NodeMark(msgspec.Struct, kw_only=True):
    """One step of a run.

    Attributes:
        attempts: how many were dispatched.
        started_at_us, settled_at_us: of the first dispatch or parking, and of the end; 0 when not reached.
        until_us: when a parked step wakes by itself.
        taken: the steps that its outcome led to.
        undo: the status of its undo, empty as long as that has not begun.
    """

    ref: str
    status: NodeStatus = "pending"
    outcome: str = ""
    task: str = ""
    attempts: int = 0
    waiting: WaitingType | None = None
    until_us: int | None = None
    error: ErrorInfo | None = None
    started_at_us: int = 0
    settled_at_us: int = 0
    taken: frozenset[str] = frozenset()
    undo: NodeStatus | Literal[""] = ""

    @property
    def duration_ms(self) -> int | None:
        """From the start to the end, None while it lasts."""
        return (self.settled_at_us - self.started_at_us) // 1_000 if self.settled_at_us else None


class RunMarks(msgspec.Struct, kw_only=True):
    """A run's steps, in the order in which they were reached; `status` is the end's once there is one."""

    run_id: str
    status: RunStatus
    nodes: dict[str, NodeMark] = msgspec.field(default_factory=dict)


def marks_of(run_id: str, status: RunStatus, rows: Iterable[tuple[int, Sequence[AnyEvent]]]) -> RunMarks:
    """Read a run's journal.

    Args:
        rows: time in microseconds and events of each row, in order from version 1.
    """
    marks = RunMarks(run_id=run_id, status=status)
    for at_us, events in rows:
        for event in events:
            _mark(marks, at_us, event)
    return marks


def _mark(marks: RunMarks, at_us: int, event: AnyEvent) -> None:
    if isinstance(event, RunEnded):
        marks.status = event.status
        return
    if not isinstance(event, AttemptDispatched | AttemptFinished | NodeParked | NodeSettled):
        return
    if event.node.endswith(UNDO_SUFFIX):
        _mark_undo(marks, event)
        return
    mark = marks.nodes.get(event.node)
    if mark is None:
        mark = marks.nodes[event.node] = NodeMark(ref=event.node, started_at_us=at_us)
    mark.undo = ""  # what an earlier life of the run undid has been done again
    match event:
        case AttemptDispatched():
            mark.status, mark.task, mark.waiting, mark.until_us = "running", event.task, None, None
            mark.attempts += 1
        case AttemptFinished():
            mark.error = event.error
        case NodeParked():
            mark.status, mark.waiting, mark.until_us = "waiting", event.waiting, event.until_us
        case NodeSettled():
            mark.status, mark.outcome, mark.settled_at_us = event.status, event.outcome, at_us
            mark.waiting, mark.until_us, mark.taken = None, None, frozenset(event.taken)
            mark.error = event.error or (mark.error if event.status == "failed" else None)


def _mark_undo(marks: RunMarks, event: AttemptDispatched | AttemptFinished | NodeParked | NodeSettled) -> None:
    mark = marks.nodes.get(event.node.removesuffix(UNDO_SUFFIX))
    if mark is None:
        return
    match event:
        case AttemptDispatched():
            mark.undo = "running"
        case NodeParked():
            mark.undo = "waiting"
        case NodeSettled():
            mark.undo = event.status
