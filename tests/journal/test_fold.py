import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.codec import decode_events, decode_state, encode_events, encode_state
from ductor.journal.events import (
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
    ErrorInfo,
    EventEmitted,
    HistoryWarned,
    LeaseGranted,
    Message,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeReset,
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
from ductor.journal.fold import apply_event, fold_row
from ductor.journal.state import ADDRESSED, STALE_TIMERS_TOLERATED, NodeState, RunState
from tests.journal.event_strategies import events, rows

RUN_ID = "01900000-0000-7000-8000-000000000001"
START = RunStarted(tenant="acme", definition="order", manifest_hash="m1", entrypoints=("reserve",))


def folded(journal: Sequence[Sequence[AnyEvent]], state: RunState | None = None) -> RunState:
    """The state after the rows of `journal`, which follow what `state` has seen."""
    state = state or RunState(run_id=RUN_ID)
    for row in journal:
        version = state.version + 1
        fold_row(state, version, version * 1_000, version.to_bytes(32, "big"), row)
    return state


# --- properties -------------------------------------------------------------------------------------------------------


@given(rows)
def test_fold_is_total_and_what_it_derives_holds(journal: list[list[AnyEvent]]):
    """Any rows whatever, also those no tick would ever write."""
    state = RunState(run_id=RUN_ID)
    for row in journal:
        folded([row], state)
        open_nodes = {ref for ref, node in state.nodes.items() if node.status in {"running", "waiting"}}
        assert set(state.open_nodes) == open_nodes
        assert state.running_count == sum(node.status == "running" for node in state.nodes.values())
        assert state.asked_count == sum(node.waiting in ADDRESSED for node in state.nodes.values())
        assert not state.fanned
        earliest = state.timers.earliest()
        deadlines = state.timers.deadlines()
        assert earliest == min(((due_at_us, key) for key, due_at_us in deadlines.items()), default=None)
        for ref, node in state.nodes.items():
            assert {name for name, listening in state.listeners.items() if ref in listening} == set(node.names)
            assert (node.waiting is not None) == (node.status == "waiting")
        assert (state.status in {"completed", "failed", "cancelled", "terminated", "continued"}) == state.is_terminal
    assert state.version == len(journal)


@given(rows)
def test_fold_gives_the_same_state_again_and_leaves_events_alone(journal: list[list[AnyEvent]]):
    texts = [encode_events(row) for row in journal]
    first = encode_state(folded(journal))
    assert [encode_events(row) for row in journal] == texts
    assert encode_state(folded(journal)) == first

    decoded = [decode_events(text, run_id=RUN_ID, version=n) for n, text in enumerate(texts)]
    assert encode_state(folded(decoded)) == first


@given(rows, st.data())
def test_a_snapshot_and_its_tail_give_the_state_of_the_whole(journal: list[list[AnyEvent]], data: st.DataObject):
    cut = data.draw(st.integers(0, len(journal)))
    restored = decode_state(encode_state(folded(journal[:cut])))
    whole, resumed = folded(journal), folded(journal[cut:], restored)
    assert encode_state(resumed) == encode_state(whole)
    assert resumed.timers.earliest() == whole.timers.earliest()


@given(rows, events)
def test_a_snapshot_is_not_changed_by_what_is_folded_after_it(journal: list[list[AnyEvent]], event: AnyEvent):
    state = folded(journal)
    snapshot = encode_state(state)
    folded([[event]], decode_state(snapshot))
    assert encode_state(state) == snapshot


# --- constant time ----------------------------------------------------------------------------------------------------


class Unsearchable(dict[str, Any]):
    """A dict that can be asked about one key, never walked or copied."""

    def _walk(self, *_: object) -> Any:
        raise AssertionError("the fold walks over all of a run")

    __iter__ = __reversed__ = keys = values = items = copy = __or__ = __eq__ = _walk
    __hash__ = None


def _lines_executed(call: Callable[[], object]) -> int:
    """How many lines of Python `call` runs."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _large_run(size: int) -> RunState:
    """A run of `size` nodes, each of which is open and has a timer."""
    state = folded([[START]])
    parked = [
        NodeParked(
            node=f"node {n}",
            waiting="timer",
            until_us=10**6 + n,
            until_is_absolute=n % 2 == 0,
            names=("signal:all", f"signal:{n}"),
        )
        for n in range(size)
    ]
    received = [MessageReceived(message=Message(id=f"message {n}", kind="signal")) for n in range(size)]
    checkpoints = [CheckpointReached(node=f"node {n}", checkpoint=f"checkpoint {n}") for n in range(size)]
    patches = [ContextPatched(node="reserve", patch={f"key {n}": n}) for n in range(size)]
    folded([parked, received, checkpoints, patches], state)
    for name in ("nodes", "open_nodes", "context", "checkpoints", "inbox", "listeners"):
        setattr(state, name, Unsearchable(getattr(state, name)))
    state.listeners["signal:all"] = Unsearchable(state.listeners["signal:all"])
    state.timers.due = Unsearchable(state.timers.due)
    state.timers.absolute = Unsearchable(state.timers.absolute)
    return state


EVERY_EVENT: Sequence[AnyEvent] = (
    NodeParked(node="node 5", waiting="retry", until_us=7),
    RunCompacted(state_revision=1, state={}, previous_hash=""),
    AttemptDispatched(node="node 5", generation=1, task="pay"),
    AttemptFinished(node="node 5", generation=1, outcome="succeeded", output=1),
    NodeSettled(node="node 5", status="succeeded", taken=("node 6",), untaken=("node 7", "new")),
    MessageReceived(message=Message(id="new", kind="signal", name="stop", position=9)),
    MessageTaken(message_id="message 1", nodes=("node 3",)),
    EventEmitted(node="node 5", event_id="event 1", name="paid"),
    SignalSent(node="node 5", run_id="other", message_id="message 2", name="stop"),
    RunPaused(by="somebody"),
    RunResumed(paused_us=5),
    RunReopened(nodes=(NodeReset(node="node 5", sources_settled=1),), input_node="node 5", input=3),
    TimerFired(key="node 3", due_at_us=10**6 + 3),
    ControlReceived(request_id="request-1", kind="cancel"),
    ContextPatched(node="node 5", patch={"key 1": 2, "new": 3}),
    CheckpointReached(node="node 5", checkpoint="checkpoint 1"),
    TickLimited(),
    RunClosing(status="failed", grace_until_us=9),
    DefersStarted(defers=("node 8",)),
    RunEnded(status="failed"),
    ScatterStarted(node="node 5", total=3, items=[1, 2, 3]),
    ChildStarted(node="node 5", generation=1, run_id="child", definition="ship", manifest_hash="hash"),
    ChildReported(node="node 3", generation=1, run_id="child", status="completed"),
    LeaseGranted(node="node 3", generation=1, fence=7),
    CompensationsStarted(),
    CompensationRequested(report_to="parent", report_id="child:child:compensated:1"),
    HistoryWarned(transitions=100, limit=125),
    ContinueRequested(request_id="request-2", until_us=9),
    RunContinued(successor_run_id="successor", request_id="request-2"),
)


@pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: type(event).__name__)
def test_an_event_costs_the_same_in_a_run_of_any_size(event: AnyEvent):
    small, large = _large_run(10), _large_run(10_000)
    assert _lines_executed(lambda: folded([[event]], small)) == _lines_executed(lambda: folded([[event]], large))


def test_every_event_but_the_first_is_measured():
    assert {type(event) for event in EVERY_EVENT} | {RunStarted} == set(get_args(AnyEvent))


def test_rearming_a_timer_for_ever_holds_few_entries():
    state = folded([[START]])
    for n in range(10_000):
        apply_event(state, NodeParked(node="pay", waiting="retry", until_us=10**9 + n))
    assert len(state.timers.heap) <= 2 + STALE_TIMERS_TOLERATED + 1
    assert state.timers.earliest() == (10**9 + 9_999, "pay")


# --- what each event means --------------------------------------------------------------------------------------------


def test_a_start():
    start = RunStarted(
        tenant="acme",
        definition="order",
        manifest_hash="m1",
        entrypoints=("a", "b"),
        trigger={"n": 1},
        context={"total": 0},
        key="order-7",
        timeout_at_us=9_000,
        depth=2,
    )
    state = folded([[start]])
    assert (state.tenant, state.definition, state.manifest_hash, state.key) == ("acme", "order", "m1", "order-7")
    assert (state.trigger, state.context, state.depth, state.started_at_us) == ({"n": 1}, {"total": 0}, 2, 1_000)
    assert list(state.touched) == ["a", "b"]
    assert state.timers.due == {"@timeout": 9_000}
    assert (state.status, state.version, state.at_us, state.last_hash) == ("pending", 1, 1_000, (1).to_bytes(32, "big"))


def _dispatched(**fields: Any) -> AttemptDispatched:
    return AttemptDispatched(**{"node": "pay", "generation": 1, "task": "charge", "input": {"n": 1}, **fields})


def test_an_attempt_runs():
    state = folded([[START, _dispatched(queue="slow")]])
    node = state.nodes["pay"]
    assert (node.status, node.generation, node.attempt, node.task, node.queue) == ("running", 1, 1, "charge", "slow")
    assert (node.input, node.dispatched_at_us, node.round_started_at_us) == ({"n": 1}, 1_000, 1_000)
    assert (state.running_count, list(state.open_nodes), state.status) == (1, ["pay"], "running")


def test_a_retry_keeps_input_and_start_of_its_round():
    failed = AttemptFinished(node="pay", generation=1, outcome="failed", error=ErrorInfo(type="Declined"))
    parked = NodeParked(node="pay", waiting="retry", until_us=2_500)
    state = folded([[START, _dispatched()], [failed, parked]])
    assert (state.status, state.nodes["pay"].waiting, state.timers.due) == ("waiting", "retry", {"pay": 2_500})
    assert state.nodes["pay"].error == ErrorInfo(type="Declined")

    folded([[TimerFired(key="pay", due_at_us=2_500), _dispatched(generation=2, attempt=2, input=None)]], state)
    node = state.nodes["pay"]
    assert (node.status, node.attempt, node.generation, node.input) == ("running", 2, 2, {"n": 1})
    assert (node.round_started_at_us, node.dispatched_at_us, node.waiting, node.until_us) == (1_000, 3_000, None, None)
    assert (state.timers.due, state.status, state.running_count) == ({}, "running", 1)


def test_a_new_round_remembers_the_output_of_the_one_before():
    finished = AttemptFinished(node="pay", generation=1, outcome="succeeded", output={"page": 1})
    state = folded([[START, _dispatched()], [finished, _dispatched(generation=2, iteration=1, input={"n": 2})]])
    node = state.nodes["pay"]
    assert (node.previous, node.input, node.iteration, node.round_started_at_us) == ({"page": 1}, {"n": 2}, 1, 2_000)


@pytest.mark.parametrize("generation", [0, 1, 3])
def test_a_result_of_another_attempt_changes_nothing(generation: int):
    state = folded([[START, _dispatched(generation=2)]])
    before = state.nodes["pay"]
    late = AttemptFinished(node="pay", generation=generation, outcome="succeeded", output="late")
    folded([[late]], state)
    assert (before.status, before.output, state.running_count) == ("running", None, 1)


def test_settling_counts_edges_and_touches_targets():
    settled = NodeSettled(node="pay", status="succeeded", outcome="paid", taken=("ship",), untaken=("refund", "end"))
    other = NodeSettled(node="reserve", status="skipped", untaken=("ship",))
    state = folded([[START, _dispatched()], [settled, other]])
    node = state.nodes["pay"]
    assert (node.status, node.outcome, node.settled_version, node.input) == ("succeeded", "paid", 2, None)
    counts = {ref: (target.sources_settled, target.sources_taken) for ref, target in state.nodes.items()}
    assert counts == {"pay": (0, 0), "reserve": (0, 0), "ship": (2, 1), "refund": (1, 0), "end": (1, 0)}
    assert list(state.touched) == ["reserve", "ship", "refund", "end", "ship"]
    assert (state.open_nodes, state.running_count) == ({}, 0)


def test_settling_keeps_the_output_of_the_attempt_unless_it_has_its_own():
    finished = AttemptFinished(node="pay", generation=1, outcome="succeeded", output="of the attempt")
    state = folded([[START, _dispatched()], [finished, NodeSettled(node="pay", status="succeeded")]])
    assert state.nodes["pay"].output == "of the attempt"
    own = NodeSettled(node="pick", status="failed", output="own", error=ErrorInfo(type="T"))
    folded([[own]], state)
    assert (state.nodes["pick"].output, state.nodes["pick"].error) == ("own", ErrorInfo(type="T"))


def test_a_node_that_settles_while_it_waits_has_no_timer_any_more():
    parked = NodeParked(node="pay", waiting="approval", until_us=5_000)
    state = folded([[START, parked], [NodeSettled(node="pay", status="cancelled")]])
    assert (state.timers.due, state.timers.earliest(), state.open_nodes) == ({}, None, {})


def test_context_is_patched_by_top_level_keys_and_its_start_is_left_alone():
    start = RunStarted(
        tenant="acme", definition="order", manifest_hash="m1", entrypoints=(), context={"a": {"x": 1}, "b": 1}
    )
    state = folded([[start], [ContextPatched(node="pay", patch={"a": {"y": 2}, "c": None})]])
    assert state.context == {"a": {"y": 2}, "b": 1, "c": None}
    assert start.context == {"a": {"x": 1}, "b": 1}


def test_closing_and_ending():
    error = ErrorInfo(type="Timeout")
    closing = RunClosing(status="failed", error=error, reason="too late", grace_until_us=9_000)
    start = RunStarted(tenant="acme", definition="order", manifest_hash="m1", entrypoints=("pay",), timeout_at_us=5_000)
    state = folded([[start, _dispatched()], [TimerFired(key="@timeout", due_at_us=5_000), closing]])
    assert state.closing is not None
    assert (state.closing.status, state.closing.defers_started, list(state.touched)) == ("failed", False, [])
    assert (state.timers.due, state.status) == ({"@grace": 9_000}, "running")

    folded([[NodeSettled(node="pay", status="cancelled"), DefersStarted(defers=("release",))]], state)
    assert state.closing.defers_started
    assert (list(state.touched), state.timers.due) == (["release"], {})

    ended = folded([[RunEnded(status="failed")]], state)
    assert (ended.status, ended.error, ended.reason, ended.closing) == ("failed", error, "too late", None)
    assert (ended.is_terminal, ended.ended_at_us, list(ended.touched)) == (True, 4_000, [])


def test_an_end_without_closing_says_all_itself():
    state = folded([[START], [RunEnded(status="completed", output={"total": 3})]])
    assert (state.status, state.output, state.error) == ("completed", {"total": 3}, None)


@pytest.mark.parametrize(
    ("row", "status"),
    [
        ([], "pending"),
        ([_dispatched()], "running"),
        ([NodeParked(node="pay", waiting="signal")], "waiting"),
        ([NodeParked(node="pay", waiting="signal"), TickLimited()], "running"),
        ([NodeParked(node="pay", waiting="signal"), _dispatched(node="ship")], "running"),
        ([NodeSettled(node="pay", status="succeeded")], "running"),
    ],
)
def test_the_status_is_derived_from_what_is_open(row: list[AnyEvent], status: str):
    assert folded([[START, *row]]).status == status


def test_a_limited_tick_is_forgotten_by_the_next_row():
    state = folded([[START, NodeParked(node="pay", waiting="signal"), TickLimited()]])
    assert state.tick_limited
    folded([[]], state)
    assert (state.tick_limited, state.status) == (False, "waiting")


def test_a_checkpoint_names_its_node():
    state = folded([[START, CheckpointReached(node="pay", checkpoint="paid")]])
    assert state.checkpoints == {"paid": "pay"}


def test_a_message_waits_in_the_inbox_until_it_is_taken():
    paid, shipped = (
        Message(id="message-1", kind="signal", position=4),
        Message(id="message-2", kind="event", position=9),
    )
    listening = [NodeParked(node=ref, waiting="signal", names=("signal:paid",)) for ref in ("pay", "ship")]
    received = [MessageReceived(message=message) for message in (paid, shipped)]
    state = folded([[START, *listening], received])
    assert (list(state.inbox.values()), state.message_position) == ([paid, shipped], 9)
    assert state.listeners == {"signal:paid": {"pay": None, "ship": None}}

    folded([[MessageTaken(message_id="message-1", nodes=("ship",)), MessageTaken(message_id="unknown")]], state)
    assert (list(state.inbox), list(state.nodes["ship"].messages)) == (["message-2"], [paid])
    assert list(state.nodes["pay"].messages) == []
    folded([[MessageTaken(message_id="message-2"), NodeSettled(node="ship", status="succeeded")]], state)
    assert (state.inbox, state.listeners) == ({}, {"signal:paid": {"pay": None}})
    assert list(state.nodes["ship"].messages) == []
    folded([[_dispatched()]], state)
    assert (state.listeners, state.message_position) == ({}, 9)


def test_a_pause_holds_the_run_and_moves_relative_deadlines_alone():
    parked = [
        NodeParked(node="pay", waiting="timer", until_us=9_000),
        NodeParked(node="ship", waiting="timer", until_us=9_500, until_is_absolute=True),
    ]
    state = folded([[START, *parked], [RunPaused(by="ann", reason="audit")], []])
    assert (state.status, state.paused_at_us) == ("paused", 2_000)
    assert (state.paused_by, state.pause_reason, state.next_due_us) == ("ann", "audit", None)
    resumed = folded([[RunResumed(paused_us=2_000)]], state)
    assert (resumed.status, resumed.paused_at_us, resumed.paused_by) == ("waiting", None, "")
    assert resumed.next_due_us == 9_500
    assert state.timers.deadlines() == {"pay": 11_000, "ship": 9_500}
    assert state.timers.earliest() == (9_500, "ship")
    folded([[NodeParked(node="notify", waiting="timer", until_us=9_100)]], state)
    assert (state.timers.earliest(), state.timers.due_at_us("pay")) == ((9_100, "notify"), 11_000)


def test_a_redrive_reopens_the_run_and_keeps_what_it_does_not_name():
    failed: list[AnyEvent] = [
        AttemptFinished(node="pay", generation=3, outcome="failed", error=ErrorInfo(type="Declined")),
        NodeSettled(node="pay", status="failed", taken=("undo",), untaken=("ship",)),
        RunEnded(status="failed", error=ErrorInfo(type="Declined")),
    ]
    kept = NodeSettled(node="reserve", status="succeeded", output=1, taken=("pay",))
    state = folded([[START, kept, _dispatched(generation=3)], failed])
    reopened = RunReopened(
        nodes=(NodeReset(node="pay", sources_settled=1, sources_taken=1), NodeReset(node="ship")),
        input_node="pay",
        input={"n": 2},
    )
    folded([[reopened]], state)
    assert (state.status, state.error, state.ended_at_us, state.reopened_count) == ("running", None, 0, 1)
    assert (state.nodes["reserve"].status, state.nodes["reserve"].output) == ("succeeded", 1)
    pay = state.nodes["pay"]
    assert (pay.status, pay.generation, pay.error, pay.sources_settled, pay.sources_taken) == ("pending", 3, None, 1, 1)
    assert (pay.has_next_input, pay.next_input) == (True, {"n": 2})
    assert (state.nodes["ship"].sources_settled, list(state.touched)) == (0, ["pay", "ship"])

    redispatched = folded([[_dispatched(generation=4, input={"n": 2})]], state).nodes["pay"]
    assert (redispatched.has_next_input, redispatched.next_input, redispatched.input) == (False, None, {"n": 2})


def test_asking_for_a_node_makes_it():
    state = folded([[START]])
    assert state.node("pay") == NodeState()
    assert list(state.nodes) == ["pay"]
