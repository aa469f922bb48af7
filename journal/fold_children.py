"""Fold, continued: scatters, child runs, undos. See `ductor.journal.fold`.

A scatter keeps counts, so that applying one child's result costs the same for ten children and for ten thousand.
"""

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
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
    node.fanout = Fanout(
        total=event.total, items=event.items, items_ref=event.items_ref, keys=event.keys, is_map=event.is_map
    )
    state.fanned[event.node] = None


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
    if node.child_run_id == event.run_id and node.status == "waiting":
        node.error = event.error
        if event.status in ("completed", "checkpoint"):
            node.output = event.output
            node.output_ref = event.output_ref


def child_under_way(state: RunState, ref: str) -> None:
    """If the node is a scatter's child, it has begun. Again after a redrive, it does not count anew."""
    place = child_place(ref)
    fanout = None if place is None else state.node(place[0]).fanout
    if place is not None and fanout is not None and place[1] >= fanout.started:
        fanout.started = place[1] + 1
        fanout.last_start_us = state.at_us


def child_settled(state: RunState, event: NodeSettled) -> None:
    """If the node is a scatter's child, it is counted, and its scatter wants to be looked at."""
    place = child_place(event.node)
    scatter = "" if place is None else place[0]
    fanout = state.node(scatter).fanout if scatter else None
    if fanout is None:
        return
    if event.status == "succeeded":
        fanout.succeeded += 1
    elif event.status == "failed":
        fanout.failed += 1
        fanout.first_failed = fanout.first_failed or event.node
    else:
        fanout.cancelled += 1
    state.fanned[scatter] = None


def undo_settled(state: RunState, event: NodeSettled) -> None:
    """The undo of the latest step is over."""
    if state.undoable and event.node == state.undoable[-1] + UNDO_SUFFIX:
        state.undoable.pop()
    closing = state.closing
    if closing is not None:
        is_done = event.status == "succeeded"
        state.closing = msgspec.structs.replace(
            closing, undos_done=closing.undos_done + is_done, undos_failed=closing.undos_failed + (not is_done)
        )


def reset_node(state: RunState, reset: NodeReset) -> None:
    """A redrive puts the node back to pending."""
    old = state.node(reset.node)
    leave(state, reset.node, old)
    fresh = NodeState(
        generation=old.generation, sources_settled=reset.sources_settled, sources_taken=reset.sources_taken
    )
    if old.fanout is not None and reset.keeps_children:
        fresh.fanout = _kept_children(state, reset.node, old.fanout)
    elif old.fanout is not None:
        for index in range(old.fanout.started):
            _forget_child(state, f"{reset.node}[{index}]")
    state.nodes[reset.node] = fresh
    state.gathered.pop(reset.node, None)
    state.touched.append(reset.node)


def _kept_children(state: RunState, ref: str, fanout: Fanout) -> Fanout:
    """The children that succeeded stay settled; all others begin anew, in a generation of their own."""
    fanout.failed = fanout.cancelled = 0
    fanout.first_failed = ""
    for index in range(fanout.started):
        child = f"{ref}[{index}]"
        if state.node(child).status != "succeeded":
            _forget_child(state, child)
    return fanout


def _forget_child(state: RunState, ref: str) -> None:
    old = state.node(ref)
    leave(state, ref, old)
    state.nodes[ref] = NodeState(generation=old.generation)
