"""Fold, continued: scatters, child runs, undos. See `ductor.journal.fold`.

A scatter keeps counts, so that applying one child's result costs the same for ten children and for ten thousand.
"""

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
    SETTLED_NODE_STATUSES,
    ChildReported,
    ChildStarted,
    NodeReset,
    NodeSettled,
    ScatterStarted,
)
from ductor.journal.open_nodes import leave
from ductor.journal.state import Fanout, NodeState, RunState, child_place


def scatter_started(state: RunState, event: ScatterStarted) -> None:
    """The scatter has its items, and waits; it is for the tick to start children."""
    node = state.node(event.node)
    _wait_for_child(state, event.node, node)
    if node.fanout is None or not event.is_resumed:
        node.fanout = Fanout(
            total=event.total,
            items=event.items,
            items_ref=event.items_ref,
            keys=event.keys,
            is_map=event.is_map,
            interval_ms=event.interval_ms,
        )
    if node.fanout.next_index is None:
        state.fanned[event.node] = None  # nothing is left to do
    else:
        state.filling[event.node] = None


def child_started(state: RunState, event: ChildStarted) -> None:
    """The node waits for a run of its own."""
    node = state.node(event.node)
    _wait_for_child(state, event.node, node)
    node.until_us = event.until_us
    node.generation = event.generation
    node.iteration = event.iteration
    node.previous = node.output
    node.previous_ref = node.output_ref
    node.child_run_id = event.run_id
    if event.until_us is not None:
        state.timers.set(event.node, event.until_us)
    if not event.is_abandoned:
        state.open_children[event.run_id] = event.node
    child_under_way(state, event.node)


def _wait_for_child(state: RunState, ref: str, node: NodeState) -> None:
    leave(state, ref, node)
    node.status = "waiting"
    node.waiting = "child"
    node.parked_at_us = state.at_us
    state.open_nodes[ref] = None
    state.asked_count += 1


def child_reported(state: RunState, event: ChildReported) -> None:
    """The child run has said how far it is; what that means for the node is for the tick to say."""
    if event.status != "checkpoint":
        state.open_children.pop(event.run_id, None)
    node = state.node(event.node)
    if node.child_run_id == event.run_id and node.waiting == "child":
        node.error = event.error
        if event.status in ("completed", "checkpoint"):
            node.output = event.output
            node.output_ref = event.output_ref


def child_under_way(state: RunState, ref: str) -> None:
    """If the node is a scatter's child that had not been started, it is now; the pause before the next one begins."""
    place = child_place(ref)
    fanout = None if place is None else state.node(place[0]).fanout
    if place is not None and fanout is not None:
        _begin(state, fanout, *place)


def child_settled(state: RunState, event: NodeSettled) -> None:
    """If the node is a scatter's child, it is counted, and its scatter wants to be looked at."""
    place = child_place(event.node)
    fanout = None if place is None else state.node(place[0]).fanout
    if place is None or fanout is None:
        return
    _begin(state, fanout, *place)  # one whose input can't be made settles without an attempt
    _count(fanout, event.node, event.status)
    state.fanned[place[0]] = None


def _begin(state: RunState, fanout: Fanout, scatter: str, index: int) -> None:
    upcoming = fanout.next_index
    if upcoming != index:
        return
    if fanout.again:
        fanout.again.pop()
    else:
        fanout.started = index + 1
    if fanout.next_index is None:
        state.filling.pop(scatter, None)
    elif fanout.interval_ms:
        state.timers.set(scatter, state.at_us + fanout.interval_ms * 1_000)


def _count(fanout: Fanout, child: str, status: str) -> None:
    if status == "succeeded":
        fanout.succeeded += 1
    elif status == "failed":
        fanout.failed += 1
        fanout.first_failed = fanout.first_failed or child
    else:
        fanout.cancelled += 1


def undo_settled(state: RunState, event: NodeSettled) -> None:
    """The undo of the latest step is over."""
    is_done = event.status == "succeeded"
    if state.undoable and event.node == state.undoable[-1] + UNDO_SUFFIX:
        undone = state.undoable.pop()
        if not is_done:
            state.not_undone.append(undone)
    closing = state.closing
    if closing is not None:
        state.closing = msgspec.structs.replace(
            closing, undos_done=closing.undos_done + is_done, undos_failed=closing.undos_failed + (not is_done)
        )


def reopen_undos(state: RunState) -> None:
    """The run goes on: what has been done and is not undone is to be undone again, and in the order of before, if the
    run ends badly again. Steps that are pending again have nothing to undo yet."""
    undoable = [*state.undoable, *reversed(state.not_undone)]
    state.not_undone = []
    state.undoable = [ref for ref in undoable if state.node(ref).status in ("succeeded", "failed")]
    for ref in undoable:
        _forget_undo(state, ref)


def reset_node(state: RunState, reset: NodeReset) -> None:
    """A redrive puts the node back to pending. The redrive of a child is that of its scatter."""
    old = state.node(reset.node)
    leave(state, reset.node, old)
    fresh = NodeState(
        generation=old.generation, sources_settled=reset.sources_settled, sources_taken=reset.sources_taken
    )
    if old.fanout is not None and reset.keeps_children:
        fresh.fanout = _kept_children(state, reset, old.fanout)
    elif old.fanout is not None:
        for index in range(old.fanout.started):
            _forget_child(state, f"{reset.node}[{index}]")
    state.nodes[reset.node] = fresh
    _forget_undo(state, reset.node)
    state.gathered.pop(reset.node, None)
    state.touched.append(reset.node)


def _kept_children(state: RunState, reset: NodeReset, fanout: Fanout) -> Fanout:
    """Which children stay settled; all others begin anew, in generations of their own, in the order of the items."""
    anew = set(reset.children)
    fanout.succeeded = fanout.failed = fanout.cancelled = 0
    fanout.first_failed = ""
    fanout.again = []
    for index in range(fanout.started):
        child = f"{reset.node}[{index}]"
        status = state.node(child).status
        if status not in SETTLED_NODE_STATUSES or (index in anew if anew else status != "succeeded"):
            _forget_child(state, child)
            fanout.again.append(index)
        else:
            _count(fanout, child, status)
    fanout.again.reverse()
    return fanout


def _forget_child(state: RunState, ref: str) -> None:
    old = state.node(ref)
    leave(state, ref, old)
    state.nodes[ref] = NodeState(generation=old.generation)
    _forget_undo(state, ref)


def _forget_undo(state: RunState, ref: str) -> None:
    """The step has not been done yet, so it has not been undone either."""
    undo = state.nodes.get(ref + UNDO_SUFFIX)
    if undo is not None:
        leave(state, ref + UNDO_SUFFIX, undo)
        state.nodes[ref + UNDO_SUFFIX] = NodeState(generation=undo.generation)
