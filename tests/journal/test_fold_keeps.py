"""What an event says is in the state afterwards, and what an end, a close or a redrive takes away is gone."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings

from ductor.journal.events import (
    CONTINUE_TIMER,
    GRACE_TIMER,
    RUN_LEASE,
    RUN_TIMEOUT_TIMER,
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    ChildStarted,
    CompensationRequested,
    CompensationsStarted,
    ContinueRequested,
    DefersStarted,
    EndStatus,
    ErrorInfo,
    HistoryWarned,
    LeaseGranted,
    Message,
    MessageReceived,
    MessageTaken,
    NodeParked,
    NodeSettled,
    OpenChild,
    PayloadRef,
    RunClosing,
    RunContinued,
    RunEnded,
    RunPaused,
    RunReopened,
    RunStarted,
    ScatterStarted,
)
from ductor.journal.fold import fold_row
from ductor.journal.state import RunState
from tests.journal.event_strategies import structs

RUN_ID = "01900000-0000-7000-8000-000000000001"
START = RunStarted(tenant="acme", definition="order", manifest_hash="m1", entrypoints=("pay",))
REF = PayloadRef(hash="h", size_bytes=9)
ERROR = ErrorInfo(type="Declined")
OTHER_ERROR = ErrorInfo(type="Timeout")


def folded(*rows: Sequence[AnyEvent], state: RunState | None = None) -> RunState:
    """The state after rows that follow what `state` has seen; row `n` is of the time `n` ms."""
    state = state or RunState(run_id=RUN_ID)
    for events in rows:
        version = state.version + 1
        fold_row(state, version, version * 1_000, version.to_bytes(32, "big"), events)
    return state


# --- what an event says is kept ---------------------------------------------------------------------------------------


class Kept(msgspec.Struct, frozen=True):
    """An event whose fields land in fields of the same names.

    Attributes:
        place: what has those fields.
        given: what the event says for it to land.
        apart: fields of the same name that mean something else.
        after: what comes before it, instead of another event of the kind.
    """

    kind: type[Any]
    place: Callable[[RunState], Any]
    given: dict[str, Any] = msgspec.field(default_factory=dict)
    apart: frozenset[str] = frozenset()
    after: tuple[AnyEvent, ...] = ()


def the_run(state: RunState) -> Any:
    return state


def the_node(state: RunState) -> Any:
    return state.nodes["pay"]


KEPT: Final = (
    Kept(RunStarted, the_run, apart=frozenset({"open_children"})),
    Kept(AttemptDispatched, the_node, given={"attempt": 1}),
    Kept(
        AttemptFinished,
        the_node,
        given={"outcome": "succeeded", "generation": 7},
        apart=frozenset({"outcome"}),
        after=(AttemptDispatched(node="pay", generation=7, task="charge"),),
    ),
    Kept(NodeParked, the_node),
    Kept(ChildStarted, the_node, apart=frozenset({"input", "input_ref"})),
    Kept(
        ChildReported,
        the_node,
        given={"status": "completed", "run_id": "child", "generation": 7},
        apart=frozenset({"status"}),
        after=(ChildStarted(node="pay", generation=7, run_id="child", definition="ship", manifest_hash="m2"),),
    ),
    Kept(NodeSettled, the_node, given={"gathers": "each", "output": [1], "error": ERROR}),
    Kept(ScatterStarted, lambda state: state.nodes["pay"].fanout, given={"is_resumed": False}),
    Kept(RunClosing, lambda state: state.closing),
    Kept(ContinueRequested, lambda state: state.continuing),
    Kept(RunContinued, the_run),
    Kept(RunEnded, the_run),
    Kept(CompensationRequested, the_run),
)


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.kind.__name__)
def test_what_an_event_says_is_kept_whatever_was_there(kept: Kept):
    def of_pay(event: Any) -> Any:
        node = {"node": "pay"} if "node" in kept.kind.__struct_fields__ else {}
        return msgspec.structs.replace(event, **node, **kept.given)

    @given(structs(kept.kind).map(of_pay), structs(kept.kind).map(of_pay))
    @settings(max_examples=30)
    def run(before: Any, event: Any) -> None:
        state = folded([START, *(kept.after or (before,)), event])
        place = kept.place(state)
        names = (set(kept.kind.__struct_fields__) & set(place.__struct_fields__)) - kept.apart
        assert names
        assert {name: getattr(place, name) for name in names} == {name: getattr(event, name) for name in names}

    run()


def test_a_start_names_children_that_are_under_way_and_a_timeout():
    children = (OpenChild(run_id="r-1", node="ship"), OpenChild(run_id="r-2", node="bill"))
    state = folded([msgspec.structs.replace(START, open_children=children, timeout_at_us=9_000)])
    assert state.open_children == {"r-1": "ship", "r-2": "bill"}
    assert (state.timers.deadlines(), state.started_at_us) == ({RUN_TIMEOUT_TIMER: 9_000}, 1_000)


def test_each_round_remembers_the_output_of_the_one_before_and_the_time_paused_so_far():
    state = folded([START, NodeSettled(node="pay", status="succeeded", output=1, output_ref=REF)])
    state.timers.shift(70)
    folded([AttemptDispatched(node="pay", generation=2, task="charge")], state=state)
    node = state.nodes["pay"]
    assert (node.previous, node.previous_ref, node.paused_before_round_us) == (1, REF, 70)

    state = folded([START, NodeSettled(node="pay", status="succeeded", output=1, output_ref=REF)])
    child = ChildStarted(node="pay", generation=2, run_id="r-1", definition="ship", manifest_hash="m2", until_us=8_000)
    folded([child], state=state)
    node = state.nodes["pay"]
    assert (node.previous, node.previous_ref, node.child_run_id, node.waiting) == (1, REF, "r-1", "child")
    assert (node.parked_at_us, state.timers.deadlines(), state.open_children) == (2_000, {"pay": 8_000}, {"r-1": "pay"})


def test_a_child_that_outlives_the_run_is_not_one_of_its_open_children():
    child = ChildStarted(
        node="pay", generation=1, run_id="r-1", definition="ship", manifest_hash="m2", is_abandoned=True
    )
    state = folded([START, child])
    assert (state.open_children, state.timers.deadlines(), state.status) == ({}, {}, "waiting")


@pytest.mark.parametrize(
    ("report", "error", "output", "open_children"),
    [
        ({"status": "completed", "output": 1}, None, 1, {}),
        ({"status": "checkpoint", "output": 1}, None, 1, {"r-1": "pay"}),
        ({"status": "failed", "output": 1, "error": ERROR}, ERROR, None, {}),
        ({"status": "completed", "output": 1, "run_id": "r-0"}, None, None, {"r-1": "pay"}),
    ],
)
def test_a_report_is_of_the_child_that_the_node_waits_for(
    report: dict[str, Any], error: ErrorInfo | None, output: int | None, open_children: dict[str, str]
):
    child = ChildStarted(node="pay", generation=1, run_id="r-1", definition="ship", manifest_hash="m2")
    state = folded([START, child], [ChildReported(**{"node": "pay", "generation": 1, "run_id": "r-1", **report})])
    assert (state.nodes["pay"].error, state.nodes["pay"].output, state.open_children) == (error, output, open_children)


def test_a_report_for_a_node_that_waits_no_longer_changes_nothing_of_it():
    child = ChildStarted(node="pay", generation=1, run_id="r-1", definition="ship", manifest_hash="m2")
    report = ChildReported(node="pay", generation=1, run_id="r-1", status="completed", output=1)
    state = folded([START, child], [NodeSettled(node="pay", status="cancelled")], [report])
    assert (state.nodes["pay"].output, state.open_children) == (None, {})


def test_what_only_a_node_under_way_has_is_gone_when_it_settles():
    parked = NodeParked(node="pay", waiting="lease", data={"key": "k"}, data_ref=REF, names=("signal:a",))
    message = Message(id="m-1", kind="signal")
    state = folded(
        [START, NodeSettled(node="pay", status="succeeded", output=1, output_ref=REF)],
        [AttemptDispatched(node="pay", generation=1, task="charge", input=1, input_ref=REF), parked],
        [LeaseGranted(node="pay", generation=1, fence=4), MessageReceived(message=message)],
        [MessageTaken(message_id="m-1", nodes=("pay",), parts={"pay": (0, 2)})],
    )
    node = state.nodes["pay"]
    work = ("input", "input_ref", "previous", "previous_ref", "data", "data_ref")
    assert None not in [getattr(node, name) for name in work]
    assert (node.lease_key, node.lease_fence, node.messages, node.message_parts) == ("k", 4, [message], [(0, 2)])
    folded([NodeSettled(node="pay", status="failed")], state=state)
    assert {getattr(node, name) for name in work} == {None}
    assert (node.lease_key, node.lease_fence, node.messages, node.message_parts) == ("", 0, (), ())


def test_a_message_that_is_part_of_no_set_says_of_no_part():
    received = [MessageReceived(message=Message(id=id, kind="signal")) for id in ("m-1", "m-2")]
    taken = [
        MessageTaken(message_id="m-1", nodes=("pay",)),
        MessageTaken(message_id="m-2", nodes=("pay", "ship"), parts={"ship": (1,)}),
    ]
    state = folded([START, *received], taken)
    assert ([one.id for one in state.nodes["pay"].messages], state.nodes["pay"].message_parts) == (["m-1", "m-2"], ())
    assert ([one.id for one in state.nodes["ship"].messages], state.nodes["ship"].message_parts) == (["m-2"], [(1,)])


def test_the_latest_position_of_a_message_is_kept_in_whatever_order_they_come():
    received = [MessageReceived(message=Message(id=f"m-{at}", kind="signal", position=at)) for at in (4, 9, 7)]
    assert folded([START, *received]).message_position == 9


# --- leases -----------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_its_lease_has_a_node_until_it_is_granted():
    parked = NodeParked(node=RUN_LEASE, waiting="lease", data={"key": "k"}, until_us=9_000)
    state = folded([START, parked])
    assert (state.nodes[RUN_LEASE].lease_key, state.asked_count, state.status) == ("k", 1, "waiting")
    assert state.lease_key == ""
    folded([LeaseGranted(node=RUN_LEASE, generation=0, fence=3)], state=state)
    assert (state.lease_key, state.lease_fence, list(state.touched), state.status) == ("k", 3, ["pay"], "pending")
    assert (state.nodes, state.open_nodes, state.asked_count, state.timers.deadlines()) == ({}, {}, 0, {})


def test_a_run_that_is_refused_its_lease_has_none():
    parked = NodeParked(node=RUN_LEASE, waiting="lease", data={"key": "k"}, until_us=9_000)
    settled = NodeSettled(node=RUN_LEASE, status="failed", error=ERROR, taken=("ship",))
    state = folded([START, parked], [settled])
    assert (state.lease_key, state.lease_fence, state.nodes, state.open_nodes) == ("", 0, {}, {})
    assert (list(state.touched), state.asked_count, state.timers.deadlines()) == (["pay"], 0, {})


def test_a_node_that_is_granted_its_lease_is_looked_at_and_has_no_deadline_any_more():
    parked = NodeParked(node="ship", waiting="lease", data={"key": "k"}, until_us=9_000)
    state = folded([START, parked], [LeaseGranted(node="ship", generation=0, fence=3)])
    node = state.nodes["ship"]
    assert (node.lease_key, node.lease_fence, state.lease_key, state.lease_fence) == ("k", 3, "", 0)
    assert (list(state.touched), state.timers.deadlines(), list(state.open_nodes)) == (["pay", "ship"], {}, ["ship"])


@pytest.mark.parametrize(
    ("waiting", "data", "key"), [("approval", {"key": "k"}, ""), ("lease", ["key"], ""), ("lease", {"key": "k"}, "k")]
)
def test_only_who_waits_for_a_lease_has_its_key(waiting: Any, data: Any, key: str):
    assert folded([START, NodeParked(node="pay", waiting=waiting, data=data)]).nodes["pay"].lease_key == key


# --- ends -------------------------------------------------------------------------------------------------------------


def under_way() -> RunState:
    """A run of which everything is there that a run can have only as long as it goes on."""
    start = msgspec.structs.replace(
        START, timeout_at_us=9_000, lease_key="k", lease_fence=2, open_children=(OpenChild(run_id="r-1", node="ship"),)
    )
    state = folded(
        [start, NodeParked(node="ship", waiting="signal", until_us=8_000), ScatterStarted(node="each", total=3)],
        [MessageReceived(message=Message(id="m-1", kind="signal"))],
        [ContinueRequested(request_id="c-1", until_us=7_000), RunPaused(by="ann", reason="audit")],
        [CompensationRequested(report_to="parent", report_id="id")],
    )
    state.agenda.append((0, "pay"))  # the scheduler's
    return state


def of_a_run_under_way(state: RunState) -> dict[str, Any]:
    names = ("closing", "continuing", "timers", "inbox", "touched", "agenda", "filling", "lease_key", "lease_fence")
    pause = ("paused_at_us", "paused_by", "pause_reason")
    return {name: getattr(state, name) for name in (*names, *pause)}


@pytest.mark.parametrize(
    "end",
    [RunEnded(status="completed"), RunContinued(successor_run_id="r-9", request_id="c-1")],
    ids=lambda end: type(end).__name__,
)
def test_nothing_of_a_run_under_way_outlives_its_end(end: AnyEvent):
    state = under_way()
    assert [name for name, value in of_a_run_under_way(state).items() if not value] == ["closing"]
    folded([end], state=state)
    assert [name for name, value in of_a_run_under_way(state).items() if value] == []
    assert state.ended_at_us == state.at_us == 5_000

    closing = folded([RunClosing(status="completed", grace_until_us=9_000)], [end], state=under_way())
    assert [name for name, value in of_a_run_under_way(closing).items() if value] == []


def test_children_of_a_run_that_is_continued_are_those_of_its_successor():
    continued = folded([RunContinued(successor_run_id="r-9", request_id="c-1", reason="long")], state=under_way())
    assert (continued.status, continued.successor_run_id, continued.reason) == ("continued", "r-9", "long")
    assert continued.open_children == {}
    ended = folded([RunEnded(status="failed")], state=under_way())
    assert ended.open_children == {"r-1": "ship"}


def test_whoever_asked_for_undos_is_told_once():
    state = under_way()
    assert (state.report_to, state.report_id) == ("parent", "id")
    folded([RunEnded(status="failed", compensated="partial")], state=state)
    assert (state.report_to, state.report_id, state.compensated) == ("", "", "partial")


def test_nothing_starts_any_more_when_a_run_is_closing():
    state = folded([RunClosing(status="failed", grace_until_us=9_500)], state=under_way())
    assert (state.continuing, list(state.touched), state.agenda, state.filling) == (None, [], [], {})
    assert state.timers.deadlines() == {"ship": 8_000, GRACE_TIMER: 9_500}
    assert (state.paused_by, state.lease_key, list(state.inbox)) == ("ann", "k", ["m-1"])
    assert GRACE_TIMER not in folded([RunClosing(status="failed")], state=under_way()).timers.deadlines()


@pytest.mark.parametrize("started", [CompensationsStarted(), DefersStarted(defers=("release", "tell"))])
def test_what_runs_at_the_end_needs_no_grace(started: AnyEvent):
    state = folded([RunClosing(status="failed", grace_until_us=9_500)], [started], state=under_way())
    assert state.closing is not None
    defers = isinstance(started, DefersStarted)
    assert (state.closing.is_compensating, state.closing.defers_started) == (not defers, defers)
    assert GRACE_TIMER not in state.timers.deadlines()
    assert list(state.touched) == (["release", "tell"] if defers else [])


@pytest.mark.parametrize("started", [CompensationsStarted(), DefersStarted(defers=())])
def test_a_run_that_is_not_closing_stays_so(started: AnyEvent):
    assert folded([START, started]).closing is None


@pytest.mark.parametrize(("status", "reason"), [("failed", "of the closing"), ("cancelled", "of the end")])
def test_a_closing_says_how_the_run_ends_unless_it_ends_otherwise(status: EndStatus, reason: str):
    closing = RunClosing(status="failed", reason="of the closing", output=1, output_ref=None, error=ERROR)
    end = RunEnded(status=status, reason="of the end", output=2, output_ref=REF, error=OTHER_ERROR)
    state = folded([START, closing], [end])
    said = closing if status == "failed" else end
    assert (state.status, state.reason) == (status, reason)
    assert (state.output, state.output_ref, state.error) == (said.output, said.output_ref, said.error)


def test_a_run_is_continued_at_the_latest_when_it_was_said():
    state = folded([START, ContinueRequested(request_id="c-1", until_us=7_000, reason="long", is_timed=True)])
    assert (state.timers.deadlines(), state.status) == ({CONTINUE_TIMER: 7_000}, "pending")
    folded([NodeSettled(node="pay", status="succeeded")], state=state)
    assert state.status == "waiting"  # nothing runs, and nothing will start


def test_a_long_history_is_said_once():
    assert not folded([START]).is_warned
    assert folded([START, HistoryWarned(transitions=100, limit=125)]).is_warned


def test_a_run_that_is_reopened_has_no_end_any_more():
    end = RunEnded(status="failed", output=1, output_ref=REF, error=ERROR, reason="late", compensated="partial")
    state = folded([START], [end])
    assert None not in (state.output, state.output_ref, state.error)
    assert (state.reason, state.compensated, state.ended_at_us) == ("late", "partial", 2_000)
    folded([RunReopened(nodes=(), timeout_at_us=9_000)], state=state)
    assert (state.output, state.output_ref, state.error, state.reason, state.compensated) == (None, None, None, "", "")
    assert (state.ended_at_us, state.reopened_count, state.is_terminal) == (0, 1, False)
    assert state.timers.deadlines() == {RUN_TIMEOUT_TIMER: 9_000}
    folded([RunEnded(status="failed")], [RunReopened(nodes=())], state=state)
    assert (state.reopened_count, state.timers.deadlines()) == (2, {})


def test_a_redrive_gives_one_node_other_input_by_reference_too():
    reopened = RunReopened(nodes=(), input_node="pay", input=None, input_ref=REF)
    state = folded([START], [RunEnded(status="failed")], [reopened])
    node = state.nodes["pay"]
    assert (node.has_next_input, node.next_input, node.next_input_ref) == (True, None, REF)
    folded([AttemptDispatched(node="pay", generation=1, task="charge", input_ref=REF)], state=state)
    assert (node.has_next_input, node.next_input, node.next_input_ref, node.input_ref) == (False, None, None, REF)
