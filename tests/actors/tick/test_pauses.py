"""Pause and resume: which deadlines move, what waits, which controls are refused."""

import pytest

from ductor.journal.events import ControlReceived, RunResumed
from tests.actors.tick.driver import SECOND_US, Driver, timer_ends

AFTER = "  - {ref: after, type: transform, value: 1}\n  - {ref: late, type: transform, value: 2}\n"


def parked(fields: str) -> Driver:
    return Driver(f"steps:\n  - {{ref: w, type: wait, {fields}, next: {{success: after, timeout: late}}}}\n{AFTER}")


def waiting_for(fields: str) -> Driver:
    return Driver(f"steps: [{{ref: w, {fields}}}]")


def pause(run: Driver, seconds: float) -> None:
    """The run is paused for so long."""
    run.request("pause", f"p-{run.state.version}")
    run.advance(seconds)
    run.request("resume", f"r-{run.state.version}")


def test_a_paused_run_says_so_by_whom_and_why():
    run = waiting_for("type: wait, signal: go")
    run.request("pause", reason="audit")
    assert (run.state.status, run.state.paused_by, run.state.pause_reason) == ("paused", "somebody", "audit")
    run.request("resume", "c-2")
    assert (run.state.status, run.state.paused_by) == ("waiting", "")


@pytest.mark.parametrize("fields", ["type: wait, duration: 10s", "type: wait, until_expr: '\"10s\"'"])
def test_a_relative_deadline_moves_by_the_length_of_the_pause(fields: str):
    run = waiting_for(fields)
    run.advance(4)
    pause(run, 100)
    assert run.advance(5.999999).events == []
    assert run.folded().status == "waiting"
    run.advance(0.000001)
    assert run.state.status == "completed"


def test_several_pauses_add_up():
    run = waiting_for("type: wait, duration: 10s")
    for _ in range(3):
        run.advance(1)
        pause(run, 50)
    assert run.state.timers.due_at_us("w") == (1 + 10 + 150) * SECOND_US


@pytest.mark.parametrize(
    "fields", ["type: wait, until: 1970-01-01T00:00:11Z", "type: wait, until_expr: \"'1970-01-01T00:00:11Z'\""]
)
@pytest.mark.parametrize(("seconds", "has_come"), [(100, True), (9, True), (5, False)])
def test_a_fixed_time_stays_and_fires_on_resume_if_it_has_come(fields: str, seconds: float, has_come: bool):
    run = waiting_for(fields)
    run.advance(1)
    pause(run, seconds)
    assert (run.state.status == "completed") == has_come
    run.now_us = max(run.now_us, 11 * SECOND_US)
    run.tick()
    assert run.state.status == "completed"


def test_a_fixed_time_that_is_waited_for_already_is_not_waited_for_anew():
    run = waiting_for("type: wait, until: 1970-01-01T01:00:00Z")
    run.request("pause")
    assert [type(event) for event in run.request("resume", "c-2").events] == [ControlReceived, RunResumed]


def test_a_cron_wait_fires_on_resume():
    run = waiting_for("type: wait, cron: '0 * * * *'")
    pause(run, 7_200)
    assert run.state.status == "completed"


def test_a_fixed_time_after_an_earlier_pause_is_a_success_and_no_timeout():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 1h")
    pause(run, 60)
    run.now_us = 300 * SECOND_US
    run.tick()
    assert run.state.nodes["w"].outcome == "success"


def test_a_timeout_that_a_pause_moves_beyond_a_fixed_time_gives_way_to_it():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 4m")
    pause(run, 200)
    assert run.state.timers.due_at_us("w") == 300 * SECOND_US
    run.now_us = 300 * SECOND_US
    run.tick()
    assert run.state.nodes["w"].outcome == "success"


def test_a_fixed_time_that_a_timeout_gave_way_to_stays_in_the_next_pause():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 4m")
    pause(run, 200)
    pause(run, 50)
    assert run.state.timers.due_at_us("w") == 300 * SECOND_US


def test_a_timeout_that_a_pause_moves_to_just_the_fixed_time_gives_way_to_it():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 4m")
    pause(run, 59)
    run.now_us = 300 * SECOND_US
    run.tick()
    assert run.state.nodes["w"].outcome == "success"


def test_a_fixed_time_that_is_also_that_of_the_timeout_is_not_moved():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 299s")
    pause(run, 30)
    assert run.state.timers.due_at_us("w") == 300 * SECOND_US


def test_a_timeout_that_stays_before_a_fixed_time_is_a_timeout():
    run = parked("until: 1970-01-01T00:05:00Z, timeout: 4m")
    pause(run, 30)
    assert run.state.timers.due_at_us("w") == 271 * SECOND_US
    run.now_us = 400 * SECOND_US
    run.tick()
    assert run.state.nodes["w"].outcome == "timeout"


def test_timeouts_retries_rounds_and_the_runs_own_timeout_move_too():
    run = Driver("""
    timeout: 1h
    steps:
      - {ref: a, type: approval, approvers: [x], timeout: 10s, on_error: continue}
      - {ref: r, type: task, task: t, retry: {max_attempts: 3, initial: 10s, jitter: 0}}
      - {ref: p, type: task, task: t, repeat: {until: 'false', every: 10s, max: 5}}
    """)
    run.fail("r")
    run.finish("p")
    pause(run, 100)
    assert run.advance(9.999999).events == []
    assert run.state.status == "waiting"
    assert sorted(run.advance(0.000001).dispatched) == ["p", "r"]
    assert run.statuses()["a"] == "failed"
    assert run.state.timers.due_at_us("@timeout") == (1 + 3_600 + 100) * SECOND_US


@pytest.mark.parametrize(
    ("paused_s", "worked_s", "is_retried"), [(0, 8, True), (0, 9, False), (100, 8, True), (100, 9, False)]
)
def test_the_total_time_of_a_step_does_not_count_pauses(paused_s: float, worked_s: float, is_retried: bool):
    policies = "retry: {max_attempts: 3, initial: 1s, jitter: 0}, timeout: {total: 10s}"
    run = Driver(f"steps: [{{ref: w, type: wait, duration: 1s, next: t}}, {{ref: t, type: task, task: t, {policies}}}]")
    pause(run, 50)  # before the round: says nothing about it
    run.advance(1)
    run.advance(worked_s)
    if paused_s:
        pause(run, paused_s)
    run.fail("t")
    assert run.statuses()["t"] == ("waiting" if is_retried else "failed")


def test_people_see_the_moved_deadline():
    run = waiting_for("type: approval, approvers: [x], timeout: 10s")
    pause(run, 100)
    assert run.inbox["w"].due_at_us == 111 * SECOND_US
    case = waiting_for("type: human_loop, title: t, timeout: 10s")
    case.work_case("w", "ann", status="begun", assignee="ann")
    pause(case, 100)
    assert (case.inbox["w"].due_at_us, case.inbox["w"].status, case.inbox["w"].people) == (
        111 * SECOND_US,
        "begun",
        ("ann",),
    )


def test_nothing_happens_while_paused_and_all_of_it_after():
    run = Driver("""
    steps:
      - {ref: t, type: task, task: t, next: u}
      - {ref: u, type: task, task: t}
      - {ref: s, type: wait, signal: go}
      - {ref: e, type: wait, event: paid}
      - {ref: d, type: wait, duration: 1s}
      - {ref: a, type: approval, approvers: [x]}
    """)
    run.request("pause")
    rows = len(run.rows)
    run.finish("t", 1)
    run.signal("go", 2)
    run.event("paid", 3)
    run.vote("a", "approved", "x")
    run.advance(100)
    assert len(run.rows) == rows
    assert set(run.statuses().values()) == {"running", "waiting"}
    assert run.request("resume", "c-2").dispatched == ["u"]
    assert {ref: run.statuses()[ref] for ref in "tsea"} == dict.fromkeys("tsea", "succeeded")
    assert run.statuses()["d"] == "waiting"
    assert [run.disposition(f"m-{n}") for n in (1, 3)] == ["consumed", "consumed"]


def test_results_and_messages_of_the_tick_that_pauses_wait_as_well():
    run = Driver("steps: [{ref: t, type: task, task: t}, {ref: s, type: wait, signal: go}]")
    result, signal = run.success("t"), run.message("signal", "go")
    payload = run.tick(control=ControlReceived(request_id="c", kind="pause"), results=[result], messages=[signal])
    assert (payload.deferred, payload.unread, payload.superseded) == ([result], [signal], ())
    assert run.statuses() == {"t": "running", "s": "waiting"}
    run.request("resume", "c-2")
    assert run.state.status == "completed"


def test_a_signal_of_a_paused_run_stored_by_a_fixed_deadline_comes_before_the_timer():
    run = parked("signal: go, timeout: 10s")
    run.request("pause")
    run.advance(5)
    run.signal("go")
    run.advance(100)
    run.request("resume", "c-2")
    assert run.state.nodes["w"].outcome == "success"


def test_a_pending_run_can_be_paused_and_begins_when_resumed():
    run = Driver("steps: [{ref: t, type: task, task: t}]", starts=False)
    run.tick(started=run.started, control=ControlReceived(request_id="c", kind="pause"))
    assert (run.state.status, run.in_flight) == ("paused", {})
    assert run.request("resume", "c-2").dispatched == ["t"]


def test_a_run_paused_between_two_ticks_of_one_work_goes_on_where_it_stopped():
    steps = "\n".join(f"  - {{ref: t{n}, type: task, task: t}}" for n in range(300))
    run = Driver(f"steps:\n{steps}")
    assert len(run.in_flight) == 300
    pause(run, 10)
    assert run.state.status == "running"


@pytest.mark.parametrize(
    ("first", "second", "refusal"),
    [
        ("pause", "pause", "the run is paused already"),
        (None, "resume", "the run is not paused"),
        ("cancel", "pause", "the run is ending"),
        ("cancel", "resume", "the run is not paused"),
        ("terminate", "pause", "the run has ended as terminated"),
        ("terminate", "resume", "the run has ended as terminated"),
        ("pause", "redrive", "the run has not ended"),
        (None, "migrate", "migrate is not something this version of ductor can do to a run"),
    ],
)
def test_a_control_that_makes_no_sense_is_refused_and_writes_no_row(first, second, refusal: str):
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    if first is not None:
        run.request(first, "c-0")
    rows = len(run.rows)
    run.request(second, "c-1")
    assert run.refusals == [refusal]
    assert len(run.rows) == rows


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_paused_run_can_be_ended(kind):
    run = Driver("steps: [{ref: t, type: task, task: t}, {ref: w, type: wait, duration: 5s}]")
    run.request("pause")
    run.signal("later")
    run.advance(100)
    run.request(kind, "c-2")
    if kind == "cancel":
        run.stopped("t")
    assert run.state.status == ("cancelled" if kind == "cancel" else "terminated")
    assert run.state.paused_at_us is None
    assert [event.paused_us for event in run.events() if isinstance(event, RunResumed)] == [100 * SECOND_US]
    assert timer_ends(run.events(), "w") == 0
    assert run.disposition("m-1") == "undelivered"


def test_the_grace_time_of_a_cancelled_paused_run_counts_from_the_cancel():
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    run.request("pause")
    run.advance(100)
    run.request("cancel", "c-2")
    assert run.advance(9.999999).events == []
    assert not run.state.is_terminal
    run.advance(0.000001)
    assert run.state.status == "cancelled"


def test_a_result_that_came_while_paused_is_applied_by_the_cancel():
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    run.request("pause")
    run.finish("t", 7)
    run.request("cancel", "c-2")
    assert (run.state.status, run.state.nodes["t"].output) == ("cancelled", 7)
