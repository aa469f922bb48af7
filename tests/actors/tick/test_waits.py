"""Waits for a time: durations, timestamps, cron, expressions; timeouts; timers."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from ductor.actors.steps.wait import next_time_us
from ductor.actors.tick.compute import MAX_INPUTS_PER_TICK, TickInputs, compute
from ductor.definitions.durations import MAX_DURATION_MS, format_timestamp_us, parse_timestamp_us
from ductor.definitions.values import JsonValue
from ductor.journal.events import NodeParked, TimerFired
from tests.actors.tick.driver import SECOND_US, Driver, timer_ends


def wait(fields: str, more: str = "") -> str:
    return f"steps:\n  - {{ref: w, type: wait, {fields}}}\n{more}"


AFTER = "  - {ref: after, type: transform, value: 1}\n  - {ref: late, type: transform, value: 2}\n"


def test_a_duration_parks_until_exactly_its_end():
    run = Driver(wait("duration: 10s"))
    assert (run.state.status, run.state.nodes["w"].waiting) == ("waiting", "timer")
    run.now_us += 10 * SECOND_US - 1
    assert run.tick().events == []
    assert run.state.status == "waiting"
    run.now_us += 1
    run.tick()
    assert (run.state.status, run.state.output) == ("completed", {"w": None})


def test_a_wait_without_an_end_says_nothing_of_one():
    run = Driver(wait("signal: go"))
    parked = [event for event in run.events() if isinstance(event, NodeParked)]
    assert parked == [NodeParked(node="w", waiting="signal", names=("signal:go",))]


def test_a_recorded_timer_of_another_moment_does_not_fire():
    run = Driver(wait("duration: 10s"))
    for due_at_us, count in ((10 * SECOND_US, 0), (11 * SECOND_US, 1)):
        recorded = TickInputs(recorded=[TimerFired(key="w", due_at_us=due_at_us)])
        payload = compute(run.program, run.folded(), recorded, 11 * SECOND_US)
        assert sum(isinstance(event, TimerFired) for event in payload.events) == count


def test_no_duration_at_all_does_not_park():
    run = Driver(wait("duration: 0s"))
    assert run.state.status == "completed"
    assert timer_ends(run.events(), "w") == 0


def test_a_timestamp_parks_until_it_and_is_fixed():
    run = Driver(wait("until: 1970-01-01T00:01:00Z"))
    assert run.state.timers.absolute == {"w": 60 * SECOND_US}
    run.now_us = 60 * SECOND_US - 1
    assert run.tick().events == []
    assert run.folded().status == "waiting"
    run.now_us += 1
    run.tick()
    assert run.state.status == "completed"


def test_a_timestamp_in_the_past_fires_at_once():
    run = Driver(wait("until: 1960-01-01T00:00:00Z"))
    assert run.statuses() == {"w": "succeeded"}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 59.0),
        ("1970-01-01t01:01:00+01:00", 59.0),
        ("90s", 90.0),
        ("PT1M", 60.0),
        ("1.5h", 5_400.0),
        ("1500ns", 0.000002),
    ],
)
def test_an_expression_gives_a_timestamp_or_a_duration(value: str, seconds: float):
    run = Driver(wait("until_expr: trigger.when"), {"when": value})
    run.now_us += round(seconds * SECOND_US) - 1
    assert run.tick().events == []
    assert run.folded().status == "waiting"
    run.now_us += 1
    run.tick()
    assert run.state.status == "completed"


def test_an_expression_may_compute_with_the_time_of_the_tick():
    run = Driver(wait('until_expr: timestamp(now) + duration("30s")'))
    assert run.advance(29.999999).events == []
    assert run.folded().status == "waiting"
    run.advance(0.000001)
    assert run.state.status == "completed"


@pytest.mark.parametrize("value", ["-1h", "0s", "1969-12-31T23:59:59Z"])
def test_an_expression_that_gives_the_past_fires_at_once(value: str):
    assert Driver(wait("until_expr: trigger"), value).state.status == "completed"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("tomorrow", "is not a duration"),
        ("", "is not a duration"),
        ("2026-13-01T00:00:00Z", "date that does not exist"),
        ("2026-01-01", "is not a timestamp"),
        (5, "neither a timestamp nor a duration"),
        (None, "neither a timestamp nor a duration"),
        (["1h"], "neither a timestamp nor a duration"),
        ("9999999w", "longer than ten years"),
    ],
)
def test_an_expression_that_gives_anything_else_fails_the_step(value: JsonValue, said: str):
    run = Driver(wait("until_expr: trigger"), value)
    assert run.state.status == "failed"
    error = run.state.error
    assert error is not None
    assert error.type == "InvalidTime"
    assert said in error.message
    assert "step w, `until_expr`" in error.message


def test_the_longest_duration_is_waited_for():
    run = Driver(wait("until_expr: trigger"), f"{MAX_DURATION_MS}ms")
    assert run.state.timers.due == {"w": run.now_us + MAX_DURATION_MS * 1_000}
    assert Driver(wait("until_expr: trigger"), f"{MAX_DURATION_MS + 1}ms").state.status == "failed"


def test_an_expression_that_fails_fails_the_step_and_names_its_place():
    run = Driver(wait("until_expr: trigger.missing"), {})
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"
    assert "subject.yaml" in run.state.error.message


# --- cron -------------------------------------------------------------------------------------------------------------


def next_local(cron: str, timezone: str, after: str) -> str:
    return format_timestamp_us(next_time_us(cron, timezone, parse_timestamp_us(after)))


@pytest.mark.parametrize(
    ("cron", "timezone", "after", "expected"),
    [
        ("*/5 * * * *", "UTC", "2026-03-01T10:00:00Z", "2026-03-01T10:05:00Z"),
        ("0 9 * * *", "Asia/Tokyo", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("0 9 * * *", "Asia/Kathmandu", "2026-03-01T00:00:00Z", "2026-03-01T03:15:00Z"),
        # the hour from 2 to 3 does not exist: what it held comes right after it
        ("30 2 * * *", "Europe/Oslo", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"),
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"),
        ("30 2 * * *", "Australia/Sydney", "2026-10-03T10:00:00Z", "2026-10-03T16:00:00Z"),
        # Lord Howe moves by half an hour
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T10:00:00Z", "2026-10-03T15:30:00Z"),
        # the hour from 2 to 3 (or 1 to 2) comes twice: its first coming counts
        ("30 2 * * *", "Europe/Oslo", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("30 2 * * *", "Europe/Oslo", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"),
        # in the second coming of the hour the first is over
        ("45 1 * * *", "America/New_York", "2026-11-01T06:30:00Z", "2026-11-02T06:45:00Z"),
        ("45 2 * * *", "Europe/Oslo", "2026-10-25T01:30:00Z", "2026-10-26T01:45:00Z"),
        # what comes every half hour goes on through gap and repeat
        ("*/30 * * * *", "Europe/Oslo", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"),
        ("*/30 * * * *", "Europe/Oslo", "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"),
        ("*/30 * * * *", "Europe/Oslo", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z"),
        # fractions of a second are past the second
        ("* * * * *", "UTC", "2026-03-01T10:00:00.000001Z", "2026-03-01T10:01:00Z"),
    ],
)  # fmt: skip
def test_the_next_time_of_a_cron_expression(cron: str, timezone: str, after: str, expected: str):
    assert next_local(cron, timezone, after) == expected


@pytest.mark.parametrize("timezone", ["Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
@pytest.mark.parametrize("cron", ["0 3 * * *", "30 2 * * *", "*/20 * * * *", "15 */2 * * *"])
def test_a_whole_year_of_a_cron_expression_only_moves_forward_and_leaves_no_day_out(cron: str, timezone: str):
    at_us = parse_timestamp_us("2026-01-01T00:00:00Z")
    days = set()
    while at_us < parse_timestamp_us("2027-01-01T00:00:00Z"):
        following_us = next_time_us(cron, timezone, at_us)
        assert following_us > at_us
        at_us = following_us if following_us - at_us > 3_600 * SECOND_US else at_us + 6 * 3_600 * SECOND_US
        days.add(datetime.fromtimestamp(following_us / SECOND_US, ZoneInfo(timezone)).date())
    assert len(days) >= 365


def test_a_cron_expression_that_never_comes_fails_its_step():
    run = Driver(wait('cron: "0 0 */29 2 1#5"'))  # the first of February, if it is the fifth Monday of the month
    error = run.state.error
    assert error is not None
    assert (run.state.status, error.type) == ("failed", "InvalidTime")
    assert "never comes" in error.message
    assert "`cron`" in error.message


def test_a_cron_wait_is_fixed_and_fires_at_its_time():
    run = Driver(wait("cron: 0 3 * * *, timezone: Europe/Oslo"))
    assert run.state.timers.absolute == {"w": 2 * 3_600 * SECOND_US}
    run.now_us = 2 * 3_600 * SECOND_US - 1
    assert run.tick().events == []
    assert run.folded().status == "waiting"
    run.now_us += 1
    run.tick()
    assert run.state.status == "completed"


# --- timeouts ---------------------------------------------------------------------------------------------------------


def test_the_timeout_edge_is_taken_and_nothing_else():
    run = Driver(wait("signal: go, timeout: 5s, effects: {x: 1}, next: {success: after, timeout: late}", AFTER))
    assert run.advance(4.999999).events == []
    assert run.state.status == "waiting"
    run.advance(0.000001)
    assert run.statuses() == {"w": "succeeded", "after": "skipped", "late": "succeeded"}
    assert (run.state.nodes["w"].outcome, run.state.context, run.state.status) == ("timeout", {}, "completed")


def test_a_timeout_without_an_edge_fails_the_step():
    run = Driver(wait("signal: go, timeout: 5s"))
    run.advance(5)
    assert run.state.status == "failed"
    error = run.state.error
    assert error is not None
    assert (error.type, error.details, error.retryable) == ("Timeout", {"timeout_ms": 5_000}, False)


def test_a_timeout_may_go_on_by_an_error_edge():
    run = Driver(wait("signal: go, timeout: 5s, on_error: continue, next: {success: after, error: late}", AFTER))
    run.advance(5)
    assert run.statuses() == {"w": "failed", "after": "skipped", "late": "succeeded"}


def test_on_timeout_skip_is_as_a_false_guard():
    run = Driver(wait("signal: go, timeout: 5s, on_timeout: skip, next: {success: after}", AFTER))
    run.advance(5)
    assert (run.statuses()["w"], run.statuses()["after"]) == ("skipped", "succeeded")


def test_on_timeout_skip_with_on_skip_stop_ends_the_path():
    fields = "signal: go, timeout: 5s, run_if: 'true', on_skip: stop, on_timeout: skip, next: {success: after}"
    run = Driver(wait(fields, AFTER))
    run.advance(5)
    assert (run.statuses()["w"], run.statuses()["after"]) == ("skipped", "skipped")


@pytest.mark.parametrize(("timeout", "outcome"), [("5s", "timeout"), ("10s", "success"), ("20s", "success")])
def test_the_earlier_of_goal_and_timeout_counts_and_the_goal_when_both_are_due(timeout: str, outcome: str):
    run = Driver(wait(f"duration: 10s, timeout: {timeout}, next: {{success: after, timeout: late}}", AFTER))
    run.advance(20)
    assert run.state.nodes["w"].outcome == outcome


def test_a_late_tick_does_not_turn_a_timeout_into_a_success():
    run = Driver(wait("duration: 10s, timeout: 5s, next: {success: after, timeout: late}", AFTER))
    run.advance(3_600)
    assert run.state.nodes["w"].outcome == "timeout"


# --- timers go with what they belong to -------------------------------------------------------------------------------


def test_a_timer_goes_with_its_cancelled_node():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, cancels: [w]}
      - {ref: w, type: wait, duration: 10s}
      - {ref: b, type: task, task: t}
    """)
    run.finish("a")
    assert run.state.timers.earliest() is None
    assert run.advance(10).events == []
    assert run.statuses()["w"] == "cancelled"


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_timer_goes_with_its_run(kind):
    run = Driver(wait("duration: 10s"))
    run.request(kind)
    assert run.advance(10).events == []
    assert timer_ends(run.events(), "w") == 0


def test_many_due_timers_fire_in_the_order_of_their_deadlines_over_several_ticks():
    steps = "\n".join(f"  - {{ref: w{n}, type: wait, duration: {n}ms}}" for n in range(1, 601))
    run = Driver(f"steps:\n{steps}")
    rows = len(run.rows)
    run.advance(1)
    assert run.state.status == "completed"
    assert len(run.rows) - rows == 3
    settled = [node.settled_version for _, node in sorted(run.state.nodes.items(), key=lambda item: int(item[0][1:]))]
    assert settled == sorted(settled)


def test_timers_that_fill_a_tick_leave_the_messages_of_after_them_to_the_next_one():
    steps = "\n".join(f"  - {{ref: w{n}, type: wait, duration: 1s}}" for n in range(MAX_INPUTS_PER_TICK))
    run = Driver(f"output: 1\nsteps:\n{steps}\n  - {{ref: go, type: wait, signal: go}}")
    run.now_us += 2 * SECOND_US
    signal = run.message("signal", "go")
    payload = compute(run.program, run.folded(), TickInputs(messages=[signal]), run.now_us)
    assert (payload.unread, payload.is_limited) == ([signal], True)
    run.tick(messages=[signal])
    assert run.state.status == "completed"


def test_more_timers_of_one_moment_than_a_tick_fires_go_on_at_once():
    count = MAX_INPUTS_PER_TICK + 1
    steps = "\n".join(f"  - {{ref: w{n}, type: wait, duration: 1s}}" for n in range(count))
    run = Driver(f"output: 1\nsteps:\n{steps}")
    run.now_us += SECOND_US
    assert compute(run.program, run.folded(), TickInputs(), run.now_us).is_limited
    run.tick()
    assert run.state.status == "completed"


def test_a_wait_that_times_out_late_only_by_the_choice_of_its_edge_fails():
    fields = "signal: go, timeout: 5s, next: {timeout: {choice: [{when: trigger.no > 1, to: after}, {to: late}]}}"
    run = Driver(wait(fields, AFTER), {})
    run.advance(5)
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ExpressionError")


# --- under joins ------------------------------------------------------------------------------------------------------

RACE = """
steps:
  - {ref: a, type: wait, signal: go, next: j}
  - {ref: b, type: wait, duration: 10s, next: j}
  - {ref: c, type: approval, approvers: [x], next: {approved: j}}
  - {ref: j, type: transform, join: JOIN, CANCEL value: "${[steps.a.status, steps.b.status, steps.c.status]}"}
"""


@pytest.mark.parametrize(
    ("winner", "expected"),
    [
        ("a", ["succeeded", "cancelled", "cancelled"]),
        ("b", ["cancelled", "succeeded", "cancelled"]),
        ("c", ["cancelled", "cancelled", "succeeded"]),
    ],
)
def test_the_first_of_a_race_withdraws_the_others(winner: str, expected: list[str]):
    run = Driver(RACE.replace("JOIN", "any").replace("CANCEL", "cancel_rest: true,"))
    if winner == "a":
        run.signal("go")
    elif winner == "b":
        run.advance(10)
    else:
        run.vote("c", "approved", "x")
    assert (run.state.status, run.state.output) == ("completed", {"j": expected})
    assert (run.waits, run.inbox) == ({}, {})


def test_a_join_of_two_waits_for_two_and_leaves_the_third_parked_without_cancel_rest():
    run = Driver(RACE.replace("JOIN", "2").replace("CANCEL", ""))
    run.signal("go")
    assert run.statuses()["j"] == "pending"
    run.advance(10)
    assert (run.statuses()["j"], run.state.status) == ("succeeded", "waiting")
    run.vote("c", "rejected", "x")
    assert run.state.status == "completed"
