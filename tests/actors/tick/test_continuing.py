"""Continue-as-new in the tick: what it waits for, what it carries, and what is stronger than it."""

from typing import Any

import msgspec
import pytest

from ductor.actors.explain import explain
from ductor.actors.reasons.reason import Reason
from ductor.actors.tick.continuing import CONTINUE_WAIT_MS
from ductor.journal.child_reports import ChildReport, report_message
from ductor.journal.commit import MessageDisposition
from ductor.journal.events import (
    CONTINUE_TIMER,
    AttemptDispatched,
    ChildReported,
    NodeSettled,
    OpenChild,
    RunContinued,
    RunStarted,
)
from ductor.journal.ids import derived_run_id
from ductor.journal.records import HostRecord
from tests.actors.tick.driver import Driver

ALIVE = HostRecord(host_id="h", started_at_us=1, heartbeat_at_us=1)

TWO_AND_A_WAIT = """
context: {n: 0, heard: 0}
timeout: 1d
on: [{signal: note, effects: {heard: "${context.heard + 1}"}}]
steps:
  - {ref: a, type: task, task: work, effects: {n: "${context.n + 1}"}, next: c}
  - {ref: b, type: wait, signal: go, next: c}
  - {ref: c, type: task, task: work}
"""

COUNTING = """
context: {n: 0}
repeat: {until: context.n >= 2, max: 5}
steps:
  - {ref: a, type: task, task: work, effects: {n: "${context.n + 1}"}}
"""


def successor(driver: Driver, payload: Any) -> RunStarted:
    """What the successor is started with."""
    (started,) = payload.outbox.started
    assert payload.outbox.forwards_to == started.run_id == driver.state.successor_run_id
    result: RunStarted = started.started
    return result


def started_with(driver: Driver, child: str) -> RunStarted:
    """The start of a run that carries on a child of an earlier one."""
    return msgspec.structs.replace(driver.started, open_children=(OpenChild(run_id=child, node="sub"),))


def status(driver: Driver) -> str:
    """The run's status as it is now."""
    return driver.state.status


def continued(driver: Driver) -> list[RunContinued]:
    return [event for event in driver.events() if isinstance(event, RunContinued)]


def test_what_is_in_flight_finishes_first_and_counts():
    driver = Driver(TWO_AND_A_WAIT, trigger={"x": 1})
    payload = driver.request("continue_as_new", reason="too old")
    assert driver.statuses() == {"a": "running", "b": "cancelled"}
    assert driver.withdrawn == []
    assert not driver.state.is_terminal
    payload = driver.finish("a")
    assert status(driver) == "continued"
    assert driver.state.reason == "continue_as_new requested by somebody: too old"
    started = successor(driver, payload)
    assert started.context == {"n": 1, "heard": 0}
    assert started.trigger == {"x": 1}
    assert (started.iteration, started.chain_run_id, started.continued_from_run_id) == (1, "run-1", "run-1")
    assert started.timeout_at_us == driver.started.timeout_at_us, "the timeout is that of the whole chain"
    assert not [event for event in driver.events() if isinstance(event, AttemptDispatched) and event.node == "c"]


@pytest.mark.parametrize(("root", "handed_on"), [(None, "run-1"), ("top", "top")])
def test_the_successor_stays_below_the_same_root(root: str | None, handed_on: str):
    driver = Driver(COUNTING, starts=False)
    driver.tick(started=msgspec.structs.replace(driver.started, root_run_id=root))
    assert successor(driver, driver.finish("a")).root_run_id == handed_on


def test_the_successor_is_the_same_for_whoever_computes_the_row():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new", "r-7")
    driver.now_us += 5_000_000
    driver.finish("a")
    assert driver.state.successor_run_id == derived_run_id(driver.state.at_us, "run-1", "r-7")


def test_what_does_not_finish_in_time_is_cancelled():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.advance(CONTINUE_WAIT_MS / 1_000 - 1)
    assert status(driver) == "running"
    payload = driver.advance(1)
    assert status(driver) == "continued"
    assert driver.withdrawn == ["a"]
    assert successor(driver, payload).context == {"n": 0, "heard": 0}
    driver.finish("a")
    assert len(driver.superseded) == 1


def test_signals_are_heard_while_the_run_winds_down_and_the_rest_goes_along():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.signal("note")
    driver.tick(messages=[driver.message("signal", "go", id="kept")])
    assert driver.disposition("kept") == "buffered"
    payload = driver.finish("a")
    assert successor(driver, payload).context == {"n": 1, "heard": 1}
    assert driver.disposition("kept") == "forwarded"


def test_a_signal_of_the_very_tick_that_continues_is_noted_only_once():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    payload = driver.tick(results=[driver.success("a")], messages=[driver.message("signal", "go", id="kept")])
    assert status(driver) == "continued"
    assert payload.outbox is not None
    assert "kept" not in payload.outbox.messages, "the statement that forwards it says what became of it"


def test_what_comes_afterwards_is_passed_on():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.finish("a")
    rows = len(driver.rows)
    for payload in (driver.signal("note"), driver.request("cancel", "c-2"), driver.request("redrive", "c-3")):
        assert payload.outbox is not None
        assert payload.outbox.forwards_to == driver.state.successor_run_id
        assert payload.control is None
        assert payload.outbox.messages == {}
    assert len(driver.rows) == rows


@pytest.mark.parametrize(("kind", "ended"), [("cancel", "cancelled"), ("terminate", "terminated")])
def test_a_cancel_that_comes_meanwhile_wins(kind: Any, ended: str):
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.request(kind, "c-2")
    if kind == "cancel":
        driver.stopped("a")
    assert status(driver) == ended
    assert continued(driver) == []


def test_a_failure_that_comes_meanwhile_wins():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.fail("a")
    assert status(driver) == "failed"
    assert continued(driver) == []


def test_an_attempt_that_would_be_tried_again_is_left_to_the_successor():
    driver = Driver("""
        steps: [{ref: a, type: task, task: work, retry: {max_attempts: 3}}]
    """)
    driver.request("continue_as_new")
    driver.fail("a")
    assert driver.statuses() == {"a": "cancelled"}
    assert status(driver) == "continued"


def test_a_step_that_repeats_ends_with_its_round():
    driver = Driver("""
        steps: [{ref: a, type: task, task: work, repeat: {until: "false", max: 100}}]
    """)
    driver.request("continue_as_new")
    driver.finish("a", 7)
    assert driver.statuses() == {"a": "succeeded"}
    assert status(driver) == "continued"


def test_the_timeout_of_the_run_wins():
    driver = Driver(TWO_AND_A_WAIT.replace("1d", "30s"))
    driver.request("continue_as_new")
    driver.advance(30)
    driver.stopped("a")
    assert status(driver) == "failed"
    assert driver.state.error is not None
    assert driver.state.error.type == "RunTimeout"


def test_asked_again_it_is_refused_as_long_as_it_winds_down():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.request("continue_as_new", "c-2")
    assert driver.refusals == ["the run is being continued already"]


@pytest.mark.parametrize(
    ("before", "refusal"), [("pause", "the run is paused; resume it first"), ("cancel", "the run is ending")]
)
def test_refused(before: Any, refusal: str):
    driver = Driver(TWO_AND_A_WAIT)
    driver.request(before)
    driver.request("continue_as_new", "c-2")
    assert driver.refusals == [refusal]


def test_a_pause_stops_the_clock_of_winding_down():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new")
    driver.request("pause", "c-2")
    driver.now_us += 2 * CONTINUE_WAIT_MS * 1_000
    driver.request("resume", "c-3")
    assert status(driver) == "running"
    assert driver.state.timers.due_at_us(CONTINUE_TIMER) == driver.now_us + CONTINUE_WAIT_MS * 1_000
    driver.finish("a")
    assert status(driver) == "continued"


def test_defers_belong_to_the_end_of_the_chain():
    driver = Driver(COUNTING + "defer: [{ref: bye, type: task, task: work}]\n")
    driver.finish("a")
    assert status(driver) == "continued"
    assert "bye" not in driver.state.nodes


def test_repeat_continues_until_its_condition_holds():
    first = Driver(COUNTING)
    payload = first.finish("a")
    started = successor(first, payload)
    assert started.context == {"n": 1}
    second = Driver(COUNTING, starts=False)
    second.tick(started=started)
    second.finish("a")
    assert status(second) == "completed"
    assert second.state.context == {"n": 2}


def test_repeat_may_be_content_with_its_last_round():
    text = COUNTING.replace("context.n >= 2, max: 5", "'false', max: 5, on_max: continue")
    driver = Driver(text, starts=False)
    driver.tick(started=msgspec.structs.replace(driver.started, iteration=4))
    driver.finish("a")
    assert (status(driver), continued(driver)) == ("completed", [])


@pytest.mark.parametrize(("iteration", "end"), [(0, "continued"), (3, "continued"), (4, "failed")])
def test_repeat_goes_as_many_rounds_as_it_may(iteration: int, end: str):
    driver = Driver(COUNTING.replace("context.n >= 2", "false"), starts=False)
    driver.tick(started=msgspec.structs.replace(driver.started, iteration=iteration))
    payload = driver.finish("a")
    assert status(driver) == end
    if end == "continued":
        assert driver.state.reason == f"round {iteration + 1} of `repeat` is over"
        assert successor(driver, payload).iteration == iteration + 1
    else:
        assert "did not hold after 5 rounds" in driver.state.reason


def test_a_condition_that_fails_to_evaluate_fails_the_run():
    driver = Driver(COUNTING.replace("context.n >= 2", "context.missing > 1"))
    driver.finish("a")
    assert status(driver) == "failed"
    assert driver.state.error is not None
    assert driver.state.error.type == "ExpressionError"


def test_while_it_pauses_before_the_next_round_it_hears_and_can_be_stopped():
    text = COUNTING.replace("max: 5", "max: 5, every: 1h") + "on: [{signal: note, effects: {n: 10}}]\n"
    driver = Driver(text)
    driver.finish("a")
    assert status(driver) == "waiting"
    driver.signal("note")
    assert status(driver) == "waiting"
    driver.advance(3_599)
    assert status(driver) == "waiting"
    payload = driver.advance(1)
    assert successor(driver, payload).context == {"n": 10}
    driver = Driver(text)
    driver.finish("a")
    driver.request("cancel")
    assert status(driver) == "cancelled"
    driver = Driver(text)
    driver.finish("a")
    driver.request("continue_as_new")
    assert status(driver) == "continued", "who asks for it does not wait for the pause"


def test_children_under_way_go_along_and_stop_with_the_successor():
    driver = Driver(TWO_AND_A_WAIT, starts=False)
    child = "01890000-0000-7000-8000-000000000001"
    started = started_with(driver, child)
    driver.tick(started=started)
    driver.request("continue_as_new")
    assert successor(driver, driver.finish("a")).open_children == (OpenChild(run_id=child, node="sub"),)
    driver = Driver(TWO_AND_A_WAIT, starts=False)
    driver.tick(started=started)
    payload = driver.request("cancel")
    assert payload.outbox is not None
    assert [control.run_id for control in payload.outbox.controls] == [child]
    driver = Driver("steps: [{ref: a, type: task, task: work}]", starts=False)
    driver.tick(started=started_with(driver, child))
    driver.finish("a")
    assert status(driver) == "completed"


def test_a_refusal_of_a_child_that_went_along_belongs_to_no_generation_of_this_run():
    driver = Driver(TWO_AND_A_WAIT, starts=False)
    driver.tick(started=started_with(driver, "child-1"))
    report = report_message(ChildReport(run_id="child-1", status="refused", owner="other"), "sub")
    driver.tick(messages=[report])
    assert driver.disposition(report.id) == "consumed"
    assert [event.generation for event in driver.events() if isinstance(event, ChildReported)] == [0]
    assert driver.state.open_children == {}


def test_rows_of_parked_steps_go_and_a_settled_step_is_not_listed_twice():
    driver = Driver("""
        steps:
          - {ref: a, type: task, task: work}
          - {ref: ask, type: approval, approvers: [ann], title: May I?}
          - {ref: event, type: wait, event: paid}
    """)
    assert set(driver.inbox) == {"ask"}
    driver.request("continue_as_new")
    assert driver.inbox == {}
    assert driver.waits == {}
    settled = [event.node for event in driver.events() if isinstance(event, NodeSettled)]
    assert sorted(settled) == ["ask", "event"]


def test_a_vote_for_a_step_that_has_left_is_undelivered_not_carried():
    driver = Driver("""
        steps:
          - {ref: a, type: task, task: work}
          - {ref: ask, type: approval, approvers: [ann], title: May I?}
    """)
    driver.request("continue_as_new")
    vote = driver.message("vote", payload={"decision": "approved"}, node="ask", by="ann", id="v-1")
    payload = driver.tick(messages=[vote])
    assert payload.outbox is not None
    assert payload.outbox.messages == {"v-1": MessageDisposition("v-1", "undelivered")}


def test_explain_tells_of_a_run_that_winds_down():
    driver = Driver(TWO_AND_A_WAIT)
    driver.request("continue_as_new", reason="too old")
    (reason,) = [reason for reason in told(driver) if reason.kind == "continuing"]
    assert "too old" in reason.text
    assert reason.until_us == driver.now_us + CONTINUE_WAIT_MS * 1_000
    driver.finish("a")
    (ended,) = told(driver)
    assert ended.details["successor_run_id"] == driver.state.successor_run_id


def told(driver: Driver) -> list[Reason]:
    """The reasons that are about the whole run."""
    explanation = explain(driver.state, driver.program, hosts=[ALIVE], now_us=driver.now_us)
    return list(explanation.run)
