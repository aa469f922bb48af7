"""Fold: a run's state from its events. Total, constant time per event, without manifest, clock, chance or logging.

`apply_event` is the only place that mutates a `RunState`. The tick uses it too, for each event at the moment it decides
it, so the live state and the folded state are the same by construction.

The status of a run is derived at the end of each row: `pending` until a node is touched, `waiting` when every open node
is parked and the tick left nothing runnable behind, `running` otherwise.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
    RUN_LEASE,
    RUN_TIMEOUT_TIMER,
    TERMINAL_RUN_STATUSES,
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    CheckpointReached,
    ChildReported,
    ChildStarted,
    CompensationRequested,
    CompensationsStarted,
    ContextPatched,
    ContinueRequested,
    ControlReceived,
    DefersStarted,
    Event,
    EventEmitted,
    HistoryWarned,
    LeaseGranted,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunCompacted,
    RunContinued,
    RunEnded,
    RunPaused,
    RunReopened,
    RunResumed,
    RunStarted,
    ScatterStarted,
    SignalSent,
    TickLimited,
    TimerFired,
)
from ductor.journal.fold_children import (
    child_reported,
    child_settled,
    child_started,
    child_under_way,
    reopen_undos,
    reset_node,
    scatter_started,
    undo_settled,
)
from ductor.journal.fold_ends import (
    compensation_requested,
    compensations_started,
    continue_requested,
    defers_started,
    history_warned,
    leave_pause,
    run_closing,
    run_continued,
    run_ended,
)
from ductor.journal.open_nodes import leave
from ductor.journal.state import ADDRESSED, NodeState, RunState

T = TypeVar("T")


def fold_row(state: RunState, version: int, at_us: int, chain_hash: bytes, events: Iterable[AnyEvent]) -> None:
    """Apply one journal row."""
    begin_row(state, version, at_us)
    cases = APPLY
    for event in events:
        cases[type(event)](state, event)
    finish_row(state, chain_hash)


def begin_row(state: RunState, version: int, at_us: int) -> None:
    """Enter the row: events that follow belong to this version and time."""
    state.version = version
    state.at_us = at_us
    state.tick_limited = False


def finish_row(state: RunState, chain_hash: bytes) -> None:
    """Leave the row: derive the run's status from what is open now."""
    state.last_hash = chain_hash
    if state.fanned:
        state.fanned.clear()
    if state.status in TERMINAL_RUN_STATUSES:
        return
    if state.paused_at_us is not None:
        state.status = "paused"
    elif not state.nodes:
        state.status = "pending"
    elif (state.open_nodes or state.continuing) and not state.running_count and not state.tick_limited:
        state.status = "waiting"
    else:
        state.status = "running"


def apply_event(state: RunState, event: AnyEvent) -> None:
    """Apply one event."""
    APPLY[type(event)](state, event)


def _run_started(state: RunState, event: RunStarted) -> None:
    state.tenant = event.tenant
    state.definition = event.definition
    state.manifest_hash = event.manifest_hash
    state.trigger = event.trigger
    state.trigger_ref = event.trigger_ref
    state.config = event.config
    state.context = dict(event.context)
    state.search_attributes = event.search_attributes
    state.key = event.key
    state.parent_run_id = event.parent_run_id
    state.root_run_id = event.root_run_id
    state.depth = event.depth
    state.iteration = event.iteration
    state.continued_from_run_id = event.continued_from_run_id
    state.parent_node = event.parent_node
    state.parent_generation = event.parent_generation
    state.parent_waits_for = event.parent_waits_for
    state.body = event.body
    state.scope = event.scope
    state.definitions = event.definitions
    state.chain_run_id = event.chain_run_id
    for child in event.open_children:
        state.open_children[child.run_id] = child.node
    state.lease_key, state.lease_fence = event.lease_key, event.lease_fence
    state.traceparent = event.traceparent
    state.started_at_us = state.at_us
    if event.timeout_at_us is not None:
        state.timers.set(RUN_TIMEOUT_TIMER, event.timeout_at_us)
    state.touched.extend(event.entrypoints)


def _attempt_finished(state: RunState, event: AttemptFinished) -> None:
    node = state.nodes.get(event.node) or state.node(event.node)
    if node.status != "running" or node.generation != event.generation:
        return  # the tick lets no such result into a row; a fold is total all the same
    node.error = event.error
    if event.outcome == "succeeded":
        node.output = event.output
        node.output_ref = event.output_ref
    # no attempt is in flight; the decision that follows in this row says what becomes of the node
    state.running_count -= 1
    del state.open_nodes[event.node]
    node.status = "pending"


def _timer_fired(state: RunState, event: TimerFired) -> None:
    state.timers.cancel(event.key)


def _control_received(state: RunState, event: ControlReceived) -> None:
    """The control itself changes nothing; what the tick decides because of it stands in the events after it."""


def _attempt_dispatched(state: RunState, event: AttemptDispatched) -> None:
    ref = event.node
    node = state.nodes.get(ref) or state.node(ref)
    if node.status != "pending":
        leave(state, ref, node)
    if event.attempt == 1:  # a retry runs with the input of the round's first attempt
        node.round_started_at_us = state.at_us
        node.paused_before_round_us = state.timers.shifted_us
        node.previous = node.output
        node.previous_ref = node.output_ref
        node.input = event.input
        node.input_ref = event.input_ref
        if node.has_next_input:
            node.has_next_input = False
            node.next_input = None
            node.next_input_ref = None
    node.status = "running"
    node.generation = event.generation
    node.attempt = event.attempt
    node.iteration = event.iteration
    node.task = event.task
    node.queue = event.queue
    node.dispatched_at_us = state.at_us
    state.running_count += 1
    state.open_nodes[ref] = None
    if ref.endswith("]"):
        child_under_way(state, ref)


def _lease_granted(state: RunState, event: LeaseGranted) -> None:
    node = state.node(event.node)
    if event.node == RUN_LEASE:
        state.lease_key, state.lease_fence = node.lease_key, event.fence
        _run_waits_no_longer(state)
        return
    node.lease_fence = event.fence
    state.timers.cancel(event.node)
    state.touched.append(event.node)


def _run_waits_no_longer(state: RunState) -> None:
    """`@run` is a node only as long as the run waits for its lease."""
    leave(state, RUN_LEASE, state.node(RUN_LEASE))
    del state.nodes[RUN_LEASE]


def _node_parked(state: RunState, event: NodeParked) -> None:
    node = state.node(event.node)
    leave(state, event.node, node)
    node.status = "waiting"
    node.waiting = event.waiting
    node.until_us = event.until_us
    node.parked_at_us = state.at_us
    node.data = event.data
    node.data_ref = event.data_ref
    node.names = event.names
    for name in event.names:
        state.listeners.setdefault(name, {})[event.node] = None
    state.open_nodes[event.node] = None
    state.asked_count += event.waiting in ADDRESSED
    if event.until_us is not None:
        state.timers.set(event.node, event.until_us, is_absolute=event.until_is_absolute)
    if event.waiting == "lease" and isinstance(event.data, dict):
        node.lease_key = str(event.data.get("key", ""))
    child_under_way(state, event.node)


def _message_received(state: RunState, event: MessageReceived) -> None:
    message = event.message
    state.inbox[message.id] = message
    state.message_position = max(state.message_position, message.position)


def _message_taken(state: RunState, event: MessageTaken) -> None:
    message = state.inbox.pop(event.message_id, None)
    if message is not None:
        for ref in event.nodes:
            node = state.node(ref)
            node.messages = _grown(node.messages, message)
            if ref in event.parts:
                node.message_parts = _grown(node.message_parts, event.parts[ref])


def _grown(items: Sequence[T], item: T) -> Sequence[T]:
    """The items and one more. Most nodes never have any, and share the empty tuple; the first one makes a list."""
    if isinstance(items, list):
        items.append(item)
        return items
    return [*items, item]


def _event_emitted(state: RunState, event: EventEmitted) -> None:
    """What it says goes to the bus; the run itself does not change."""


def _signal_sent(state: RunState, event: SignalSent) -> None:
    """What it says goes to another run; this one does not change."""


def _run_paused(state: RunState, event: RunPaused) -> None:
    state.paused_at_us = state.at_us
    state.paused_by = event.by
    state.pause_reason = event.reason


def _run_resumed(state: RunState, event: RunResumed) -> None:
    leave_pause(state)
    state.timers.shift(event.paused_us)


def _run_reopened(state: RunState, event: RunReopened) -> None:
    state.status = "running"
    state.output = None
    state.output_ref = None
    state.error = None
    state.reason = ""
    state.ended_at_us = 0
    state.reopened_count += 1
    if event.timeout_at_us is not None:
        state.timers.set(RUN_TIMEOUT_TIMER, event.timeout_at_us)
    state.compensated = ""
    for reset in event.nodes:
        reset_node(state, reset)
    reopen_undos(state)
    if event.input_node:
        node = state.node(event.input_node)
        node.has_next_input = True
        node.next_input = event.input
        node.next_input_ref = event.input_ref


def _node_settled(state: RunState, event: NodeSettled) -> None:
    ref = event.node
    if ref == RUN_LEASE:
        _run_waits_no_longer(state)
        return
    node = state.nodes.get(ref) or state.node(ref)
    if node.status != "pending":
        leave(state, ref, node)
    node.status = event.status
    node.outcome = event.outcome
    node.taken = event.taken
    node.settled_version = state.version
    _forget_work(node)
    if event.gathers:
        node.gathers = event.gathers
        node.gather_strategy = event.gather_strategy
    if event.is_undoable:
        state.undoable.append(ref)
    if ref.endswith("]"):
        child_settled(state, event)
    elif ref.endswith(UNDO_SUFFIX):
        undo_settled(state, event)
    elif node.fanout is not None:
        state.filling.pop(ref, None)
    if event.error is not None:
        node.error = event.error
    if event.output is not None or event.output_ref is not None:
        node.output = event.output
        node.output_ref = event.output_ref
    for target_ref in event.taken:
        target = state.node(target_ref)
        target.sources_settled += 1
        target.sources_taken += 1
        state.touched.append(target_ref)
    for target_ref in event.untaken:
        state.node(target_ref).sources_settled += 1
        state.touched.append(target_ref)


def _forget_work(node: NodeState) -> None:
    """What only a node under way has."""
    node.input = None
    node.input_ref = None
    node.previous = None
    node.previous_ref = None
    if node.lease_key:
        node.lease_key, node.lease_fence = "", 0
    if node.parked_at_us:
        node.data = None
        node.data_ref = None
    if node.messages:
        node.messages = node.message_parts = ()


def _context_patched(state: RunState, event: ContextPatched) -> None:
    state.context.update(event.patch)


def _checkpoint_reached(state: RunState, event: CheckpointReached) -> None:
    state.checkpoints[event.checkpoint] = event.node


def _tick_limited(state: RunState, event: TickLimited) -> None:
    state.tick_limited = True


def _run_compacted(state: RunState, event: RunCompacted) -> None:
    """What it says is the state before its row: `ductor.journal.compaction` begins with it where rows are gone."""


APPLY: Final[dict[type[Event], Callable[[RunState, Any], None]]] = {
    RunStarted: _run_started,
    AttemptFinished: _attempt_finished,
    TimerFired: _timer_fired,
    ControlReceived: _control_received,
    MessageReceived: _message_received,
    MessageTaken: _message_taken,
    EventEmitted: _event_emitted,
    SignalSent: _signal_sent,
    RunPaused: _run_paused,
    RunResumed: _run_resumed,
    RunReopened: _run_reopened,
    AttemptDispatched: _attempt_dispatched,
    NodeParked: _node_parked,
    NodeSettled: _node_settled,
    ContextPatched: _context_patched,
    CheckpointReached: _checkpoint_reached,
    RunClosing: run_closing,
    DefersStarted: defers_started,
    TickLimited: _tick_limited,
    RunEnded: run_ended,
    ScatterStarted: scatter_started,
    ChildStarted: child_started,
    ChildReported: child_reported,
    LeaseGranted: _lease_granted,
    CompensationsStarted: compensations_started,
    CompensationRequested: compensation_requested,
    ContinueRequested: continue_requested,
    HistoryWarned: history_warned,
    RunContinued: run_continued,
    RunCompacted: _run_compacted,
}
"""What each event does to a state. `apply_event` looks here; so does who applies one event after another."""
