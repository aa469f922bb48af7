"""Controls that the tick refuses or takes with something missing."""

import msgspec
import pytest

from ductor.actors.tick import controls as controls_module
from ductor.definitions.values import JsonValue
from ductor.journal.compaction import compacted, is_compacted, state_size_bytes
from ductor.journal.events import ControlReceived
from tests.actors.tick.driver import Driver

WAITS = "steps: [{ref: w, type: wait, signal: go, next: t}, {ref: t, type: task, task: t}]"


def test_a_run_that_has_only_just_begun_is_not_compacted():
    run = Driver(WAITS)
    run.request("compact")
    assert "only just begun" in run.refusals[0]
    run.signal("go")
    run.request("compact", "c-2")
    assert [is_compacted(row.events) for row in run.rows] == [False, False, True]
    assert len(run.refusals) == 1


@pytest.mark.parametrize("is_too_large", [False, True])
def test_a_state_that_no_row_takes_is_not_compacted(is_too_large: bool, monkeypatch: pytest.MonkeyPatch):
    run = Driver(WAITS)
    run.signal("go")
    size_bytes = state_size_bytes(compacted(run.state))
    monkeypatch.setattr(controls_module, "MAX_COMPACTED_STATE_BYTES", size_bytes - is_too_large)
    run.request("compact")
    assert is_compacted(run.rows[-1].events) == (not is_too_large)
    refusal = (
        f"the run's state has {size_bytes} bytes and a journal row takes {size_bytes - 1}; "
        "continue the run as new instead"
    )
    assert run.refusals == ([refusal] if is_too_large else [])


def test_a_row_that_begins_a_run_compacts_nothing():
    run = Driver(WAITS, starts=False)
    run.tick(started=run.started, control=ControlReceived(request_id="c-1", kind="compact", by="somebody"))
    assert "only just begun" in run.refusals[0]
    assert not any(is_compacted(row.events) for row in run.rows)


def test_a_parent_that_asks_for_undos_where_nothing_is_left_is_told_so_in_a_row():
    run = Driver("steps: [{ref: t, type: task, task: t}]", starts=False)
    run.tick(started=msgspec.structs.replace(run.started, parent_run_id="parent", parent_node="s"))
    run.finish("t")
    payload = run.request("compensate", report_to="s", report_id="child:run-1:compensated:0")
    assert [type(event) for event in payload.events] == [ControlReceived]
    assert [(sent.message.id, sent.message.node) for sent in run.sent] == [("child:run-1:compensated:0", "s")]


@pytest.mark.parametrize("arguments", [{"report_to": "s"}, {"report_id": "i"}, {"report_to": "s", "report_id": 3}])
def test_whoever_asks_for_undos_is_told_only_where_it_says_how(arguments: dict[str, JsonValue]):
    run = Driver("steps: [{ref: t, type: task, task: t, compensate: {task: u}}]")
    run.finish("t")
    run.tick(control=ControlReceived(request_id="c-1", kind="compensate", by="somebody", arguments=arguments))
    assert (run.state.report_to, run.state.report_id) == ("", "")
    assert run.in_flight.keys() == {"t.compensate"}


@pytest.mark.parametrize(
    ("by", "arguments", "why"),
    [
        ("", {}, "cancel requested"),
        ("ann", {}, "cancel requested by ann"),
        ("", {"reason": "audit"}, "cancel requested: audit"),
        ("ann", {"reason": "audit"}, "cancel requested by ann: audit"),
        ("ann", {"reason": ""}, "cancel requested by ann"),
        ("ann", {"reason": 3}, "cancel requested by ann"),
    ],
)
def test_a_run_says_who_stopped_it_and_why(by: str, arguments: dict[str, JsonValue], why: str):
    run = Driver(WAITS)
    run.tick(control=ControlReceived(request_id="c-1", kind="cancel", by=by, arguments=arguments))
    assert run.state.reason == why


@pytest.mark.parametrize(
    ("by", "arguments", "why"),
    [
        ("", {}, "compensate requested"),
        ("ann", {"reason": "audit"}, "compensate requested by ann: audit"),
        ("ann", {"reason": ""}, "compensate requested by ann"),
        ("ann", {"reason": 3}, "compensate requested by ann"),
    ],
)
def test_a_run_says_who_had_it_undone_and_why(by: str, arguments: dict[str, JsonValue], why: str):
    run = Driver("steps: [{ref: t, type: task, task: t, compensate: {task: u}}]")
    run.finish("t")
    run.tick(control=ControlReceived(request_id="c-1", kind="compensate", by=by, arguments=arguments))
    run.finish("t.compensate")
    assert (run.state.status, run.state.reason) == ("cancelled", why)


@pytest.mark.parametrize(
    ("by", "arguments", "why"),
    [
        ("", {}, "continue_as_new requested"),
        ("ann", {"reason": "long"}, "continue_as_new requested by ann: long"),
        ("ann", {"reason": ""}, "continue_as_new requested by ann"),
        ("ann", {"reason": 3}, "continue_as_new requested by ann"),
    ],
)
def test_a_run_says_who_had_it_continued_and_why(by: str, arguments: dict[str, JsonValue], why: str):
    run = Driver(WAITS)
    run.tick(control=ControlReceived(request_id="c-1", kind="continue_as_new", by=by, arguments=arguments))
    assert (run.state.status, run.state.reason) == ("continued", why)


def test_all_steps_are_a_value_too():
    run = Driver(
        "steps: [{ref: a, type: transform, value: 1, next: b}, {ref: b, type: transform, value: '${size(steps)}'}]"
    )
    assert run.state.nodes["b"].output == 2
