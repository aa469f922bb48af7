"""Redrive: what is done anew, what is kept, what joins say afterwards."""

import msgspec
import pytest

from ductor.actors.tick.event_waits import CLOCK_TOLERANCE_US
from ductor.definitions.values import JsonValue
from ductor.journal.events import ControlReceived, ErrorInfo, NodeReset, RunReopened
from tests.actors.tick.driver import SECOND_US, Driver

CHAIN = """
steps:
  - {ref: a, type: task, task: t, next: b}
  - {ref: b, type: task, task: t, input: {n: 1}, next: c}
  - {ref: c, type: task, task: t}
"""


def redrive(run: Driver, **arguments: JsonValue) -> None:
    run.request("redrive", f"r-{run.state.version}", **arguments)


def from_(*refs: str) -> dict[str, JsonValue]:
    return {"from": list(refs)}


def test_a_failed_step_is_done_anew_and_what_succeeded_is_kept():
    run = Driver(CHAIN)
    run.finish("a", "first")
    run.fail("b")
    redrive(run)
    assert run.state.status == "running"
    assert (run.state.error, run.state.reason, run.state.ended_at_us, run.state.reopened_count) == (None, "", 0, 1)
    assert set(run.in_flight) == {"b"}
    assert run.state.nodes["b"].generation == 2
    run.finish("b")
    run.finish("c", "last")
    assert (run.state.status, run.state.output) == ("completed", {"c": "last"})
    assert run.state.nodes["a"].output == "first"


def test_a_late_result_of_before_does_not_count():
    run = Driver(CHAIN)
    run.finish("a")
    late = run.success("b")
    run.request("terminate")
    redrive(run)
    assert run.tick(results=[late]).superseded == [late]
    assert run.statuses()["b"] == "running"


def test_a_named_step_and_all_after_it_are_done_anew():
    run = Driver(CHAIN)
    for ref in "abc":
        run.finish(ref, f"{ref}1")
    assert run.state.status == "completed"
    redrive(run, **from_("b"))
    assert run.statuses() == {"a": "succeeded", "b": "running", "c": "pending"}
    run.finish("b", "b2")
    run.finish("c", "c2")
    assert [run.state.nodes[ref].output for ref in "abc"] == ["a1", "b2", "c2"]


def test_naming_one_step_does_not_leave_out_what_failed():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t}
      - {ref: b, type: task, task: t}
      - {ref: w, type: wait, signal: go, next: c}
      - {ref: c, type: transform, value: 1}
    """)
    run.finish("a")
    run.fail("b")
    redrive(run, **from_("a"))
    assert run.statuses() == {"a": "running", "b": "running", "w": "waiting", "c": "pending"}
    run.finish("a")
    run.finish("b")
    run.signal("go")
    assert run.state.status == "completed"


@pytest.mark.parametrize("size", [1, 100_000])
def test_an_edited_input_is_used_once(size: int):
    run = Driver(CHAIN.replace("input: {n: 1}", "input: {n: 1}, retry: {max_attempts: 2, initial: 0s}"))
    run.finish("a")
    run.fail("b", retryable=False)
    edited: JsonValue = {"n": "x" * size}
    redrive(run, **from_("b"), input=edited)
    node = run.state.nodes["b"]
    assert run.state.value(node.input, node.input_ref) == edited
    run.fail("b")
    assert run.state.value(node.input, node.input_ref) == edited
    run.fail("b", retryable=False)
    redrive(run)
    assert run.state.nodes["b"].input == {"n": 1}


def test_an_input_without_a_name_is_for_the_step_that_failed_and_for_none_that_was_deferred():
    run = Driver(CHAIN + "defer: [{ref: tell, type: task, task: t}]")
    run.fail("a")
    run.fail("tell")
    redrive(run, input={"n": 5})
    assert (run.refusals, run.state.nodes["a"].input) == ([], {"n": 5})


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"from": ["nobody"]}, "the definition has no step 'nobody' that can be done anew"),
        ({"from": ["tell"]}, "the definition has no step 'tell' that can be done anew"),
        ({"from": [1]}, "the definition has no step 1 that can be done anew"),
        ({"from": []}, "`from` must be a list of steps"),
        ({"from": {"a": 1}}, "`from` must be a list of steps"),
        ({"from": ["a", "b"], "input": 1}, "`input` needs exactly one step, of type task; name it with `from`"),
        ({"from": ["calculated"], "input": 1}, "`input` needs exactly one step, of type task; name it with `from`"),
    ],
)
def test_what_can_not_be_done_is_refused_and_leaves_the_run_closed(arguments: dict[str, JsonValue], refusal: str):
    run = Driver(
        CHAIN + "  - {ref: calculated, type: transform, value: 1}\ndefer: [{ref: tell, type: transform, value: 1}]"
    )
    run.fail("a")
    rows = len(run.rows)
    redrive(run, **arguments)
    assert run.refusals == [refusal]
    assert (run.state.status, len(run.rows)) == ("failed", rows)


def test_a_completed_run_needs_a_name():
    run = Driver("steps: [{ref: a, type: transform, value: 1}]")
    redrive(run)
    assert run.refusals == ["the run has completed; name the steps to do anew with `from`"]


# --- joins ------------------------------------------------------------------------------------------------------------


def diamond(join: str) -> str:
    return f"""
    steps:
      - {{ref: a, type: task, task: t, next: j}}
      - {{ref: b, type: task, task: t, next: j}}
      - {{ref: c, type: task, task: t, next: j}}
      - {{ref: j, type: task, task: t, join: {join}}}
    """


@pytest.mark.parametrize(("join", "needed"), [("all", 2), ("every", 2), ("2", 1), ("3", 2)])
def test_a_join_counts_what_was_said_before_and_what_is_said_anew(join: str, needed: int):
    run = Driver(diamond(join))
    run.finish("a")
    run.fail("b")
    run.stopped("c")
    redrive(run)
    assert run.statuses() == {"a": "succeeded", "b": "running", "c": "running", "j": "pending"}
    assert run.state.nodes["j"].sources_taken == 1
    for count, ref in enumerate("bc", start=1):
        assert ("j" in run.in_flight) == (count > needed)
        run.finish(ref)
    assert "j" in run.in_flight


def test_an_any_join_that_ran_already_is_not_run_again():
    run = Driver(diamond("any"))
    run.finish("a")
    run.finish("j", "once")
    run.fail("b")
    run.stopped("c")
    redrive(run)
    assert set(run.in_flight) == {"b", "c"}
    run.finish("b")
    run.finish("c")
    assert (run.state.status, run.state.output) == ("completed", {"j": "once"})


def test_what_was_withdrawn_by_another_step_stays_so():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, next: j}
      - {ref: b, type: task, task: t, next: j}
      - {ref: j, type: task, task: t, join: any, cancel_rest: true, next: last}
      - {ref: last, type: task, task: t}
    """)
    run.finish("a")
    run.finish("j")
    run.fail("last")
    redrive(run)
    assert run.statuses() == {"a": "succeeded", "b": "cancelled", "j": "succeeded", "last": "running"}


def test_a_failure_that_was_dealt_with_stays_so():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, on_error: continue, next: {success: b, error: c}}
      - {ref: b, type: task, task: t}
      - {ref: c, type: task, task: t, next: d}
      - {ref: d, type: task, task: t}
    """)
    run.fail("a")
    run.finish("c", "mended")
    run.fail("d")
    redrive(run)
    assert run.statuses() == {"a": "failed", "b": "skipped", "c": "succeeded", "d": "running"}
    run.finish("d")
    assert run.state.status == "completed"


@pytest.mark.parametrize("edge", ["c", "{choice: [{when: error.type == 'Boom', to: c}, {to: d}]}"])
def test_a_failure_that_was_dealt_with_stays_so_although_the_run_failed_with_the_same_words(edge: str):
    run = Driver(f"""
    steps:
      - {{ref: a, type: task, task: t, on_error: continue, next: {{error: {edge}}}}}
      - {{ref: c, type: task, task: t, next: d}}
      - {{ref: d, type: task, task: t}}
    """)
    error = ErrorInfo(type="Boom", message="the shop is closed", retryable=False)
    for ref in "ad":
        run.tick(results=[msgspec.structs.replace(run.success(ref), outcome="failed", error=error)])
        if ref == "a":
            run.finish("c")
    redrive(run)
    assert run.statuses() == {"a": "failed", "c": "succeeded", "d": "running"}


def test_what_its_guard_skipped_after_a_step_that_failed_is_asked_again():
    run = Driver("""
    context: {go: false}
    on: [{signal: go, effects: {go: true}}]
    steps:
      - {ref: a, type: task, task: t, next: b}
      - {ref: x, type: task, task: t, next: b}
      - {ref: b, type: task, task: t, join: any, run_if: context.go}
    """)
    run.finish("x")
    assert run.statuses()["b"] == "skipped"
    run.signal("go")
    run.fail("a")
    redrive(run)
    assert set(run.in_flight) == {"a", "b"}


def test_another_branch_may_be_taken_the_second_time():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, next: {success: {choice: [{when: output.big, to: b}, {to: c}]}}}
      - {ref: b, type: task, task: t}
      - {ref: c, type: task, task: t}
    """)
    run.finish("a", {"big": False})
    run.finish("c")
    redrive(run, **from_("a"))
    run.finish("a", {"big": True})
    assert run.statuses() == {"a": "succeeded", "b": "running", "c": "skipped"}


def test_a_choice_that_failed_although_its_step_may_fail_is_done_anew():
    run = Driver(
        """
        steps:
          - ref: a
            type: task
            task: t
            on_error: continue
            next:
              success: {choice: [{when: output.big, to: b}, {to: c}]}
              error: {choice: [{when: trigger.missing, to: b}, {to: c}]}
          - {ref: b, type: task, task: t}
          - {ref: c, type: task, task: t}
        """,
        {},
    )
    run.finish("a", {})
    assert run.statuses()["a"] == "failed"
    redrive(run)
    run.finish("a", {"big": True})
    run.finish("b")
    assert run.state.status == "completed"


# --- what the end of the run left half done ---------------------------------------------------------------------------


def test_a_step_that_succeeded_while_the_run_was_closing_is_kept_with_all_its_consequences():
    run = Driver("""
    context: {n: 0}
    steps:
      - {ref: a, type: task, task: t}
      - {ref: b, type: task, task: t, effects: {n: "${output}"}, next: {success: {choice: [{when: output > 5, to: c}, {to: d}]}}}
      - {ref: c, type: task, task: t}
      - {ref: d, type: task, task: t}
    """)  # noqa: E501
    run.fail("a")
    run.finish("b", 7)
    assert run.statuses() == {"a": "failed", "b": "succeeded", "c": "pending", "d": "pending"}
    assert (run.state.status, run.state.context) == ("failed", {"n": 7})
    redrive(run)
    assert set(run.in_flight) == {"a", "c"}
    assert run.statuses()["d"] == "skipped"
    run.finish("a")
    run.finish("c")
    assert run.state.status == "completed"


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_an_ended_run_goes_on_with_everything_that_its_end_cut_off(kind):
    run = Driver("""
    steps:
      - {ref: t, type: task, task: t, next: j}
      - {ref: w, type: wait, duration: 10s, next: j}
      - {ref: a, type: approval, approvers: [x], next: {approved: j}}
      - {ref: j, type: transform, value: 1}
    """)
    run.vote("a", "approved", "x")
    run.request(kind)
    if kind == "cancel":
        run.stopped("t")
    run.advance(100)
    redrive(run)
    assert run.statuses() == {"t": "running", "w": "waiting", "a": "succeeded", "j": "pending"}
    run.finish("t")
    run.advance(10)
    assert run.state.status == "completed"


def test_a_run_that_was_ended_before_it_began_begins():
    run = Driver("steps: [{ref: t, type: task, task: t, next: u}, {ref: u, type: task, task: t}]", starts=False)
    run.now_us += 1
    run.tick(started=run.started, control=ControlReceived(request_id="c", kind="pause"))
    run.request("cancel", "c-2")
    assert (run.state.status, run.statuses()) == ("cancelled", {})
    redrive(run)
    assert set(run.in_flight) == {"t"}


def test_deferred_steps_run_again_at_the_new_end():
    run = Driver(CHAIN + 'defer: [{ref: tell, type: task, task: tell, input: "${run.status}"}]')
    run.fail("a")
    run.finish("tell")
    redrive(run)
    assert "tell" not in run.in_flight
    for ref in "abc":
        run.finish(ref)
    assert run.state.nodes["tell"].input == "completed"
    run.finish("tell")
    assert run.state.status == "completed"


def test_a_run_that_was_ended_on_purpose_is_ended_anew():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, next: stop}
      - {ref: stop, type: transform, value: "${steps.a.output}", end: failed}
    """)
    run.finish("a", 1)
    redrive(run)
    assert (run.state.status, run.state.reopened_count) == ("failed", 1)
    redrive(run, **from_("a"))
    run.finish("a", 2)
    assert (run.state.status, run.state.nodes["stop"].output) == ("failed", 2)


def test_the_runs_own_timeout_counts_anew():
    run = Driver("timeout: 10s\n" + CHAIN)
    run.advance(10)
    run.stopped("a")
    assert run.state.status == "failed"
    run.advance(50)
    redrive(run)
    assert run.state.timers.due_at_us("@timeout") == 71 * SECOND_US
    run.advance(10)
    run.stopped("a")
    assert run.state.error is not None
    assert run.state.error.type == "RunTimeout"


def test_handlers_hear_events_again():
    run = Driver("on: [{event: paid, effects: {paid: '${event.payload}'}}]\n" + CHAIN)
    run.fail("a")
    assert run.waits == {}
    run.advance(5)
    redrive(run)
    assert run.waits["@on", 0].since_us == run.now_us - CLOCK_TOLERANCE_US
    run.event("paid", 5)
    assert run.state.context == {"paid": 5}


def test_a_parked_step_asks_anew_and_has_forgotten_the_votes_of_before():
    run = Driver("""
    steps:
      - {ref: a, type: approval, approvers: [x, y], quorum: 2}
      - {ref: t, type: task, task: t}
    """)
    run.vote("a", "approved", "x")
    run.fail("t")
    redrive(run)
    assert set(run.inbox) == {"a"}
    run.finish("t")
    run.vote("a", "approved", "y")
    assert run.statuses()["a"] == "waiting"
    run.vote("a", "approved", "x")
    assert run.state.status == "completed"


def test_what_a_redrive_decides_stands_in_one_event():
    run = Driver(CHAIN)
    run.finish("a")
    run.fail("b")
    redrive(run, **from_("b"), input={"n": 2})
    (reopened,) = [event for event in run.events() if isinstance(event, RunReopened)]
    assert reopened.nodes == (NodeReset(node="b", sources_settled=1, sources_taken=1), NodeReset(node="c"))
    assert (reopened.input_node, reopened.input) == ("b", {"n": 2})


def test_a_run_may_be_redriven_many_times_and_never_loses_what_succeeded():
    run = Driver(CHAIN)
    run.finish("a", "kept")
    for _ in range(5):
        run.fail("b")
        redrive(run)
        assert run.state.nodes["a"].output == "kept"
    run.finish("b", "at last")
    run.finish("c", 1)
    assert (run.state.status, run.state.reopened_count, run.state.nodes["b"].generation) == ("completed", 5, 6)
