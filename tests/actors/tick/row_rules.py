"""What must hold of the events of any row."""

import re
from collections.abc import Sequence

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
    SETTLED_NODE_STATUSES,
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildStarted,
    NodeParked,
    NodeSettled,
    RunContinued,
    RunEnded,
    RunReopened,
)
from ductor.journal.state import RunState, child_place


def check_events(before: RunState, events: Sequence[AnyEvent]) -> None:
    """The end of a run ends its row, and what has settled rests."""
    assert not any(isinstance(event, RunEnded | RunContinued) for event in events[:-1]), "a run goes on after its end"
    _check_that_settled_nodes_rest(before, events)


def _check_that_settled_nodes_rest(before: RunState, events: Sequence[AnyEvent]) -> None:
    """A node that has settled neither settles again nor begins, parks or ends anything, until it is put back."""
    settled = {ref for ref, node in before.nodes.items() if node.status in SETTLED_NODE_STATUSES}
    for event in events:
        if isinstance(event, RunReopened):
            put_back = {reset.node for reset in event.nodes}
            settled = {ref for ref in settled if not _is_put_back(ref, put_back)}
        elif isinstance(event, NodeSettled | NodeParked | AttemptDispatched | AttemptFinished | ChildStarted):
            assert event.node not in settled, f"{event.node} has settled before: {event}"
            if isinstance(event, NodeSettled):
                settled.add(event.node)


def named_payloads(events: bytes) -> set[str]:
    """The hashes of the large values that a row names."""
    return {found.decode() for found in re.findall(rb'"hash":"([0-9a-f]{64})","size_bytes":', events)}


def _is_put_back(ref: str, put_back: set[str]) -> bool:
    """Whether a redrive of these nodes, or a later request to undo, lets this one begin again: a child of a scatter
    goes with its scatter, an undo has its own life in each life of the run."""
    place = child_place(ref)
    return ref in put_back or ref.endswith(UNDO_SUFFIX) or (place is not None and place[0] in put_back)
