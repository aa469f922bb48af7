"""Scatters, their children, undos and what a redrive makes of them, event by event."""

from collections.abc import Sequence
from typing import Any

import pytest

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    ChildStarted,
    NodeParked,
    NodeReset,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
    RunStarted,
    ScatterStarted,
    TimerFired,
)
from ductor.journal.fold import apply_event, begin_row, finish_row
from ductor.journal.state import Closing, Fanout, NodeState, RunState, child_place

START = RunStarted(tenant="acme", definition="order", manifest_hash="m1", entrypoints=())
THREE = ScatterStarted(node="each", total=3, items=["a", "b", "c"])


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("each[0]", ("each", 0)),
        ("each[9999]", ("each", 9_999)),
        ("each[00]", None),
        ("each[07]", None),
        ("each[-1]", None),
        ("each[]", None),
        ("each[٣]", None),  # a digit, but not one of ours
        ("each", None),
        ("[0]", None),
        (f"each[{'9' * 5_000}]", None),  # more than Python makes a number of
        ("each[0].compensate", None),
    ],
)
def test_a_child_has_one_name(name: str, place: tuple[str, int] | None):
    assert child_place(name) == place


def after(*rows: Sequence[AnyEvent], state: RunState | None = None) -> RunState:
    """The state in the midst of the last of these rows: what the tick sees. Row `n` is of the time `n` ms."""
    state = state or RunState(run_id="run-1")
    for events in rows:
        finish_row(state, b"")
        begin_row(state, state.version + 1, (state.version + 1) * 1_000)
        for event in events:
            apply_event(state, event)
    return state


def runs(node: str, generation: int = 1) -> AttemptDispatched:
    return AttemptDispatched(node=node, generation=generation, task="charge")


def settled(node: str, status: Any = "succeeded", **fields: Any) -> NodeSettled:
    return NodeSettled(node=node, status=status, **fields)


def fanout_of(state: RunState) -> Fanout:
    fanout = state.nodes["each"].fanout
    assert fanout is not None
    return fanout


def counts(state: RunState) -> tuple[int, int, int, int]:
    fanout = fanout_of(state)
    return (fanout.started, fanout.succeeded, fanout.failed, fanout.cancelled)


# --- scatters ---------------------------------------------------------------------------------------------------------


def test_a_scatter_waits_for_its_children_and_has_some_to_start():
    state = after([START, THREE])
    node = state.nodes["each"]
    assert (node.status, node.waiting, node.parked_at_us, list(state.open_nodes)) == (
        "waiting",
        "child",
        1_000,
        ["each"],
    )
    assert (state.asked_count, list(state.filling), state.fanned) == (1, ["each"], {})
    assert (counts(state), fanout_of(state).next_index) == ((0, 0, 0, 0), 0)


def test_a_scatter_of_nothing_wants_to_be_looked_at():
    state = after([START, ScatterStarted(node="each", total=0)])
    assert (list(state.fanned), state.filling, fanout_of(state).next_index) == (["each"], {}, None)


def test_children_are_counted_as_they_start_and_settle():
    state = after([START, THREE], [runs("each[0]"), runs("each[1]")])
    assert (counts(state), list(state.filling), state.fanned) == ((2, 0, 0, 0), ["each"], {})
    after([settled("each[1]", "failed")], state=state)
    assert (counts(state), list(state.fanned)) == ((2, 0, 1, 0), ["each"])
    after([settled("each[0]"), settled("each[2]", "cancelled")], state=state)  # the last one could not be started
    assert (counts(state), fanout_of(state).first_failed, state.filling) == ((3, 1, 1, 1), "each[1]", {})
    assert (fanout_of(state).open, fanout_of(state).settled) == (0, 3)


def test_the_first_child_that_fails_is_remembered():
    state = after([START, THREE], [settled("each[0]", "failed"), settled("each[1]", "failed")])
    assert (fanout_of(state).first_failed, counts(state)) == ("each[0]", (2, 0, 2, 0))


def test_a_child_that_waits_first_has_started_too():
    parked = NodeParked(node="each[0]", waiting="lease", data={"key": "k"})
    state = after([START, THREE], [parked])
    assert counts(state) == (1, 0, 0, 0)
    after([runs("each[0]")], [runs("each[0]", 2)], state=state)
    assert (counts(state), fanout_of(state).next_index) == ((1, 0, 0, 0), 1)


def test_the_pause_before_the_next_child_begins_with_the_one_before():
    state = after([START, ScatterStarted(node="each", total=2, interval_ms=50)], [runs("each[0]")])
    assert state.timers.deadlines() == {"each": 2_000 + 50_000}
    after([TimerFired(key="each", due_at_us=52_000), runs("each[1]")], state=state)
    assert (state.timers.deadlines(), state.filling) == ({}, {})


def test_a_further_attempt_of_a_child_starts_none():
    scatter = ScatterStarted(node="each", total=3, interval_ms=50)
    state = after([START, scatter], [runs("each[0]"), runs("each[1]")], [runs("each[0]", 2)])
    assert (counts(state), fanout_of(state).next_index) == ((2, 0, 0, 0), 2)
    assert state.timers.deadlines() == {"each": 2_000 + 50_000}


def test_a_child_without_a_pause_arms_no_timer():
    assert after([START, THREE], [runs("each[0]")]).timers.deadlines() == {}


def test_a_child_that_is_a_run_of_its_own_has_started_too():
    child = ChildStarted(node="each[0]", generation=1, run_id="r-1", definition="ship", manifest_hash="m2")
    assert counts(after([START, THREE], [child])) == (1, 0, 0, 0)


@pytest.mark.parametrize("ref", ["each[0]", "other[0]", "[0]", "each[x]", f"each[0]{UNDO_SUFFIX}"])
def test_what_is_no_child_of_a_scatter_is_counted_nowhere(ref: str):
    state = after([START], [runs(ref), settled(ref)])
    assert (state.nodes[ref].status, state.fanned, state.filling) == ("succeeded", {}, {})


def test_a_scatter_that_settles_starts_no_more_children():
    state = after([START, THREE], [settled("each", "cancelled")])
    assert (state.filling, state.asked_count, state.open_nodes) == ({}, 0, {})


# --- undos ------------------------------------------------------------------------------------------------------------


def closing(state: RunState) -> Closing:
    assert state.closing is not None
    return state.closing


def undoable(*refs: str) -> RunState:
    done = [settled(ref, is_undoable=True) for ref in refs]
    return after([START, *done], [RunClosing(status="failed")])


def test_the_latest_step_is_undone_first():
    state = undoable("reserve", "pay")
    assert state.undoable == ["reserve", "pay"]
    after([runs(f"pay{UNDO_SUFFIX}"), settled(f"pay{UNDO_SUFFIX}")], state=state)
    assert (state.undoable, state.not_undone) == (["reserve"], [])
    assert (closing(state).undos_done, closing(state).undos_failed) == (1, 0)
    after([settled(f"reserve{UNDO_SUFFIX}", "cancelled")], state=state)
    assert (state.undoable, state.not_undone) == ([], ["reserve"])
    assert (closing(state).undos_done, closing(state).undos_failed) == (1, 1)


def test_an_undo_of_another_step_than_the_latest_leaves_that_to_be_undone():
    state = undoable("reserve", "pay")
    after([settled(f"reserve{UNDO_SUFFIX}", "failed")], state=state)
    assert (state.undoable, state.not_undone) == (["reserve", "pay"], [])


def test_an_undo_in_a_run_that_is_not_closing_is_counted_nowhere():
    state = after([START, settled("pay", is_undoable=True), settled(f"pay{UNDO_SUFFIX}")], [settled(f"x{UNDO_SUFFIX}")])
    assert (state.undoable, state.closing) == ([], None)


def test_a_run_that_goes_on_undoes_all_that_is_left_in_the_order_of_before():
    state = undoable("a", "b", "c", "d")
    after(
        [settled(f"d{UNDO_SUFFIX}", "failed"), settled(f"c{UNDO_SUFFIX}", "cancelled")],
        [RunEnded(status="failed")],
        state=state,
    )
    assert (state.undoable, state.not_undone) == (["a", "b"], ["d", "c"])
    after([RunReopened(nodes=(NodeReset(node="b"),))], state=state)
    assert (state.undoable, state.not_undone) == (["a", "c", "d"], [])
    assert state.nodes[f"d{UNDO_SUFFIX}"] == NodeState()
    assert f"a{UNDO_SUFFIX}" not in state.nodes


def test_steps_that_failed_are_undone_again_and_others_not():
    state = undoable("a", "b", "c")
    state.nodes["a"].status, state.nodes["b"].status = "failed", "skipped"
    after([RunEnded(status="failed")], [RunReopened(nodes=())], state=state)
    assert state.undoable == ["a", "c"]


def test_a_step_that_was_undone_and_is_done_anew_is_not_undone_yet():
    state = undoable("a", "b")
    after([runs(f"b{UNDO_SUFFIX}", 2), settled(f"b{UNDO_SUFFIX}")], [RunEnded(status="failed")], state=state)
    after([RunReopened(nodes=(NodeReset(node="b"),))], state=state)
    assert state.nodes[f"b{UNDO_SUFFIX}"] == NodeState(generation=2)


def test_an_undo_that_begins_anew_has_generations_of_its_own():
    state = undoable("a")
    undo = f"a{UNDO_SUFFIX}"
    after([runs(undo, 4), settled(undo, "failed")], [RunEnded(status="failed")], state=state)
    after([RunReopened(nodes=())], state=state)
    assert state.nodes[undo] == NodeState(generation=4)


# --- redrives ---------------------------------------------------------------------------------------------------------


def test_a_node_that_is_done_anew_keeps_nothing_but_its_generation():
    state = after([START, runs("pay", 3), runs("ship")], [RunEnded(status="failed")])
    state.gathered["pay"] = [1]
    after([RunReopened(nodes=(NodeReset(node="pay", sources_settled=2, sources_taken=1),))], state=state)
    assert state.nodes["pay"] == NodeState(generation=3, sources_settled=2, sources_taken=1)
    assert (list(state.open_nodes), state.running_count, state.gathered) == (["ship"], 1, {})
    assert list(state.touched) == ["pay"]


def scattered() -> RunState:
    """Of five children one has not started, two have succeeded, one has failed, one runs; the third has an undo."""
    done = [settled("each[0]", "failed"), settled("each[2]", is_undoable=True), settled("each[3]")]
    state = after(
        [START, ScatterStarted(node="each", total=5)],
        [runs("each[0]", 6), runs("each[1]", 7), runs("each[2]"), runs("each[3]")],
        [*done, runs(f"each[2]{UNDO_SUFFIX}", 2), settled(f"each[2]{UNDO_SUFFIX}")],
    )
    assert (counts(state), state.running_count) == ((4, 2, 1, 0), 1)
    return state


def reset(state: RunState, *nodes: NodeReset) -> RunState:
    return after([RunEnded(status="failed")], [RunReopened(nodes=nodes)], state=state)


def test_a_scatter_that_is_done_anew_forgets_its_children():
    state = reset(scattered(), NodeReset(node="each"))
    assert (state.nodes["each"].fanout, state.running_count, state.open_nodes) == (None, 0, {})
    generations = {f"each[{index}]": generation for index, generation in enumerate((6, 7, 1, 1))}
    assert {ref: state.nodes[ref] for ref in generations} == {
        ref: NodeState(generation=generation) for ref, generation in generations.items()
    }
    assert state.nodes[f"each[2]{UNDO_SUFFIX}"] == NodeState(generation=2)
    assert "each[4]" not in state.nodes


def test_a_scatter_keeps_the_children_that_have_succeeded():
    state = reset(scattered(), NodeReset(node="each", keeps_children=True))
    fanout = fanout_of(state)
    assert (counts(state), fanout.again, fanout.first_failed, fanout.next_index) == ((4, 2, 0, 0), [1, 0], "", 0)
    assert [state.nodes[f"each[{index}]"].status for index in range(4)] == [
        "pending", "pending", "succeeded", "succeeded"
    ]  # fmt: skip
    assert (state.running_count, state.open_nodes, fanout.open) == (0, {}, 0)
    assert state.nodes[f"each[2]{UNDO_SUFFIX}"].status == "succeeded"


def test_a_scatter_does_those_children_anew_that_are_named_and_those_that_are_not_settled():
    state = reset(scattered(), NodeReset(node="each", keeps_children=True, children=(2,)))
    fanout = fanout_of(state)
    assert (counts(state), fanout.again, fanout.first_failed) == ((4, 1, 1, 0), [2, 1], "each[0]")
    assert state.nodes[f"each[2]{UNDO_SUFFIX}"] == NodeState(generation=2)


def test_children_that_a_redrive_has_not_come_to_are_counted_once_by_the_next():
    state = reset(scattered(), NodeReset(node="each", keeps_children=True))
    reset(state, NodeReset(node="each", keeps_children=True))
    assert (fanout_of(state).again, fanout_of(state).open, counts(state)) == ([1, 0], 0, (4, 2, 0, 0))


def test_children_that_are_done_anew_start_before_those_that_never_were():
    state = reset(scattered(), NodeReset(node="each", keeps_children=True))
    resumed = ScatterStarted(node="each", total=5, is_resumed=True)
    after([resumed, runs("each[0]", 8)], state=state)
    assert (fanout_of(state).again, fanout_of(state).next_index, fanout_of(state).open) == ([1], 1, 1)
    after([runs("each[1]", 8)], state=state)
    assert (fanout_of(state).next_index, counts(state), list(state.filling)) == (4, (4, 2, 0, 0), ["each"])
    after([runs("each[4]")], state=state)
    assert (fanout_of(state).next_index, counts(state), state.filling) == (None, (5, 2, 0, 0), {})


def test_a_scatter_that_begins_anew_has_new_items():
    state = reset(scattered(), NodeReset(node="each", keeps_children=True))
    after([ScatterStarted(node="each", total=1)], state=state)
    assert (counts(state), fanout_of(state).total, fanout_of(state).again) == ((0, 0, 0, 0), 1, [])


def test_a_scatter_of_which_all_is_done_is_judged_when_it_goes_on():
    state = after([START, ScatterStarted(node="each", total=1)], [runs("each[0]"), settled("each[0]")])
    reset(state, NodeReset(node="each", keeps_children=True))
    after([ScatterStarted(node="each", total=1, is_resumed=True)], state=state)
    assert (list(state.fanned), state.filling, counts(state)) == (["each"], {}, (1, 1, 0, 0))


def test_an_undo_that_runs_is_at_work_no_more_when_its_step_is_begun_anew():
    """No tick writes this; the state holds together all the same."""
    state = after([START, runs("pay.compensate")])
    assert set(state.open_nodes) == {"pay.compensate"}
    after([RunReopened(nodes=(NodeReset(node="pay"),))], state=state)
    assert (set(state.open_nodes), state.running_count) == (set(), 0)
