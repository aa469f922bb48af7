"""How runs end: failures, cancels, timeouts, deferred steps."""

import pytest

from ductor.journal.events import AttemptFinished, ControlReceived, NodeSettled, RunEnded
from tests.actors.tick.driver import Driver, settlements

PAIR = """
steps:
  - {ref: a, type: task, task: t, next: {done: c}}
  - {ref: b, type: task, task: t, retry: {max_attempts: 3, initial: 1h}}
  - {ref: c, type: task, task: t}
"""


def test_a_failure_takes_no_edge_stops_its_siblings_and_ends_the_run():
    run = Driver(PAIR)
    run.fail("a", "Boom")
    assert run.state.closing is not None
    assert run.withdrawn == ["b"]
    run.stopped("b")
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert (run.state.error.type, run.state.reason) == ("Boom", "step a failed")
    assert run.statuses() == {"a": "failed", "b": "cancelled", "c": "pending"}


def test_an_error_that_came_with_an_attempt_is_not_written_down_again():
    run = Driver("steps: [{ref: a, type: task, task: t}]")
    run.fail("a", "Boom")
    (settled,) = settlements(run.events(), "a")
    assert (settled.status, settled.error) == ("failed", None)


def test_a_run_that_has_nothing_to_do_first_ends_at_once():
    """Without an event that says how it is going to end."""
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    assert [type(event) for event in run.fail("t").events] == [AttemptFinished, NodeSettled, RunEnded]


def test_a_sibling_that_finishes_within_the_grace_time_keeps_its_result():
    run = Driver(PAIR)
    run.fail("a")
    run.finish("b", 7)
    assert run.state.status == "failed"
    assert (run.state.nodes["b"].status, run.state.nodes["b"].output) == ("succeeded", 7)


def test_a_sibling_that_does_not_stop_is_closed_when_the_grace_time_is_over():
    run = Driver(PAIR)
    run.fail("a")
    assert run.advance(9).events == []
    run.advance(1)
    assert (run.state.status, run.statuses()["b"]) == ("failed", "cancelled")
    late = run.success("b")
    assert run.tick(results=[late]).superseded == [late]


def test_a_parked_sibling_is_cancelled_at_once_with_its_timer():
    run = Driver(PAIR)
    run.fail("b")
    assert run.state.nodes["b"].status == "waiting"
    run.fail("a")
    assert (run.state.status, run.statuses()["b"]) == ("failed", "cancelled")
    assert run.state.timers.earliest() is None


def test_the_first_failure_is_the_runs():
    run = Driver(PAIR.replace("{max_attempts: 3, initial: 1h}", "{max_attempts: 1}"))
    run.fail("a", "First")
    run.fail("b", "Second")
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "First")


def test_a_sibling_that_fails_while_the_run_is_closing_is_not_tried_again():
    run = Driver(PAIR.replace("initial: 1h", "initial: 0s, jitter: 0"))
    run.fail("a")
    run.fail("b")
    assert (run.state.status, run.statuses()["b"], run.in_flight) == ("failed", "failed", {})


def test_on_error_continue_lets_the_run_complete():
    run = Driver("steps: [{ref: a, type: task, task: t, on_error: continue}, {ref: b, type: task, task: t}]")
    run.fail("a")
    run.finish("b", 1)
    assert (run.state.status, run.state.output) == ("completed", {"b": 1})


DEFER = """
steps: [{ref: a, type: task, task: t}]
defer:
  - ref: tell
    type: task
    task: tell
    input: {status: "${run.status}", error: "${default(run.error.type, null)}"}
    retry: {max_attempts: 2, initial: 1s}
"""


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("finish", {"status": "completed", "error": None}),
        ("fail", {"status": "failed", "error": "Boom"}),
        ("cancel", {"status": "cancelled", "error": "RunCancelled"}),
    ],
)
def test_deferred_steps_run_once_whatever_the_end(end, told):
    run = Driver(DEFER)
    if end == "finish":
        run.finish("a", 1)
    elif end == "fail":
        run.fail("a")
    else:
        run.request("cancel")
        run.stopped("a")
    assert run.state.nodes["tell"].input == told
    assert not run.state.is_terminal
    run.finish("tell")
    assert run.state.status == told["status"]
    assert sum(isinstance(event, RunEnded) for event in run.events()) == 1


def test_a_deferred_step_is_retried_and_its_failure_changes_nothing():
    run = Driver(DEFER)
    run.finish("a", 1)
    run.fail("tell")
    run.advance(5)
    run.fail("tell")
    assert (run.state.status, run.state.output) == ("completed", {"a": 1})
    assert run.statuses()["tell"] == "failed"


def test_terminate_ends_at_once_without_deferred_steps():
    run = Driver(DEFER)
    run.request("terminate")
    assert run.state.status == "terminated"
    assert run.withdrawn == ["a"]
    assert run.statuses() == {"a": "cancelled"}


def test_terminate_ends_a_run_that_is_closing():
    run = Driver(DEFER)
    run.request("cancel")
    run.request("terminate", "c-2")
    assert run.state.status == "terminated"
    assert run.state.error is not None
    assert run.state.error.type == "RunTerminated"


def test_a_control_on_an_ended_run_is_refused_and_writes_nothing():
    run = Driver("steps: [{ref: a, type: transform, value: 1}]")
    rows = len(run.rows)
    run.request("cancel")
    assert run.refusals == ["the run has ended as completed"]
    assert len(run.rows) == rows


def test_cancel_against_the_completing_result_in_one_tick_cancels():
    run = Driver("steps: [{ref: a, type: task, task: t}]")
    result = run.success("a", 1)
    run.tick(control=ControlReceived(request_id="c", kind="cancel"), results=[result])
    assert run.state.status == "cancelled"
    assert run.state.nodes["a"].output == 1


@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("cancel", "cancelled")])
def test_the_runs_own_timeout(policy, status):
    run = Driver(f"timeout: 10s\non_timeout: {policy}\nsteps: [{{ref: a, type: task, task: t}}]")
    assert run.advance(9.9).events == []
    run.advance(0.1)
    assert run.withdrawn == ["a"]
    run.stopped("a")
    assert run.state.status == status
    assert run.state.error is not None
    assert run.state.error.type == "RunTimeout"


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_transform_ends_the_run_on_purpose(end):
    error = (
        ', error: {type: "Bad${trigger.n}", message: "n was ${trigger.n}", details: {n: "${output}"}}'
        if end == "failed"
        else ""
    )
    run = Driver(
        f"""
        steps:
          - {{ref: a, type: transform, value: "${{trigger.n}}", end: {end}{error}}}
          - {{ref: b, type: task, task: t}}
        """,
        {"n": 3},
    )
    if "b" in run.in_flight:
        run.stopped("b")
    assert run.state.status == end
    if end == "failed":
        assert run.state.error is not None
        assert (run.state.error.type, run.state.error.message, run.state.error.details) == ("Bad3", "n was 3", {"n": 3})
        assert not run.state.error.retryable


def test_an_error_type_that_is_no_text_becomes_one():
    run = Driver("steps: [{ref: a, type: transform, value: 1, end: failed, error: {type: '${trigger}'}}]", 404)
    assert run.state.error is not None
    assert run.state.error.type == "404"


def test_a_transform_whose_effects_fail_does_not_end_the_run():
    run = Driver("""
    steps:
      - {ref: a, type: transform, value: 1, end: completed, effects: {x: '${output.missing}'}, on_error: continue}
      - {ref: b, type: task, task: t}
    """)
    assert (run.statuses(), run.state.status) == ({"a": "failed", "b": "running"}, "running")


def test_a_run_output_that_fails_to_evaluate_fails_the_run():
    run = Driver("output: {x: '${steps.a.output.y}'}\nsteps: [{ref: a, type: transform, value: {}}]")
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"


def test_nothing_is_decided_twice():
    run = Driver(PAIR)
    assert run.tick().events == []
    run.finish("a")
    assert run.tick().events == []
