"""Signals and events: before, at and after their waits; several waits; what passes by; what can't be delivered."""

import pytest

from ductor.actors.tick import messages as messages_module
from ductor.actors.tick.compute import MAX_INPUTS_PER_TICK, TickInputs, compute
from ductor.actors.tick.event_waits import CLOCK_TOLERANCE_US
from ductor.definitions.values import JsonValue
from ductor.journal.events import MessageReceived, MessageTaken, RunEnded
from tests.actors.tick.driver import SECOND_US, Driver, settlements

ONE = "steps: [{ref: w, type: wait, signal: go}]"

SEQUENCE = """
steps:
  - {ref: t, type: task, task: t, next: first}
  - {ref: first, type: wait, signal: go, next: second}
  - {ref: second, type: wait, signal: go, next: third}
  - {ref: third, type: wait, signal: other}
"""


# --- signals ----------------------------------------------------------------------------------------------------------


def test_a_signal_brings_its_payload_to_the_wait():
    run = Driver(ONE)
    run.signal("go", {"n": 1})
    assert (run.state.status, run.state.output) == ("completed", {"w": {"n": 1}})
    assert run.disposition("m-1") == "consumed"


def test_a_signal_of_another_name_is_kept_and_wakes_nobody():
    run = Driver(ONE)
    run.signal("stay")
    assert run.statuses() == {"w": "waiting"}
    assert run.disposition("m-1") == "buffered"


def test_signals_that_come_before_their_waits_are_taken_in_order_one_by_each():
    run = Driver(SEQUENCE)
    run.signal("go", 1)
    run.signal("other", "x")
    run.signal("go", 2)
    run.signal("go", 3)
    assert [run.disposition(f"m-{n}") for n in (1, 2, 3, 4)] == ["buffered"] * 4
    run.finish("t")
    assert run.state.status == "completed"
    assert [run.state.nodes[ref].output for ref in ("first", "second", "third")] == [1, 2, "x"]
    assert [run.disposition(f"m-{n}") for n in (1, 2, 3, 4)] == ["consumed", "consumed", "consumed", "undelivered"]


def test_signals_of_one_tick_are_taken_by_waits_that_only_begin_in_it():
    run = Driver(SEQUENCE)
    run.finish("t")
    run.tick(messages=[run.message("signal", "go", n) for n in (1, 2)] + [run.message("signal", "other", 3)])
    assert [run.state.nodes[ref].output for ref in ("first", "second", "third")] == [1, 2, 3]


def test_of_several_waits_the_one_that_has_waited_longest_takes_the_signal():
    run = Driver("""
    steps:
      - {ref: t, type: task, task: t, next: early}
      - {ref: late, type: wait, signal: go}
      - {ref: early, type: wait, signal: go}
    """)
    run.finish("t")
    run.signal("go", 1)
    assert run.statuses() == {"late": "succeeded", "t": "succeeded", "early": "waiting"}
    run.signal("go", 2)
    assert run.state.nodes["early"].output == 2


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "terminate"])
def test_what_is_kept_when_the_run_ends_is_undelivered(end: str):
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    run.signal("go")
    if end == "complete":
        run.finish("t")
    elif end == "fail":
        run.fail("t")
    else:
        run.request("cancel" if end == "cancel" else "terminate")
        if end == "cancel":
            run.stopped("t")
    assert run.state.is_terminal
    assert run.disposition("m-1") == "undelivered"


def test_a_signal_to_a_run_that_is_closing_or_over_is_undelivered_without_a_row():
    run = Driver("steps: [{ref: t, type: task, task: t}, {ref: w, type: wait, signal: go}]")
    run.request("cancel")
    rows = len(run.rows)
    run.signal("go")
    assert (run.disposition("m-1"), len(run.rows)) == ("undelivered", rows)
    run.stopped("t")
    assert run.state.status == "cancelled"
    run.signal("go")
    assert run.disposition("m-2") == "undelivered"


def test_the_second_signal_of_the_tick_that_ends_the_run_is_undelivered():
    run = Driver("steps: [{ref: w, type: wait, signal: go, effects: {x: '${output.missing}'}}]")
    run.tick(messages=[run.message("signal", "go", {}), run.message("signal", "go", {})])
    assert run.state.status == "failed"
    assert [run.disposition("m-1"), run.disposition("m-2")] == ["consumed", "undelivered"]


def test_a_tick_takes_up_a_bounded_number_of_messages_in_order_and_says_that_it_left_some():
    run = Driver("steps: [{ref: t, type: task, task: t}]")
    signals = [run.message("signal", "go", n) for n in range(MAX_INPUTS_PER_TICK * 2 + 1)]
    payload = compute(run.program, run.folded(), TickInputs(messages=signals), run.now_us)
    assert payload.is_limited
    assert payload.unread == signals[MAX_INPUTS_PER_TICK:]
    rows = len(run.rows)
    run.tick(messages=signals)
    assert len(run.rows) == rows + 3
    assert list(run.state.inbox) == [signal.id for signal in signals]


TIMED = """
steps:
  - {ref: w, type: wait, signal: go, timeout: 5s, next: {timeout: late}}
  - {ref: late, type: wait, signal: other}
"""


def test_a_message_of_a_clock_ahead_of_this_one_comes_after_the_timers_of_its_time():
    run = Driver(TIMED)
    run.tick(messages=[run.message("signal", "go", at_us=run.now_us + 5 * SECOND_US + 1)])
    assert run.state.nodes["w"].outcome == "timeout"
    assert run.disposition("m-1") == "buffered"


@pytest.mark.parametrize(("at_s", "outcome"), [(4, "success"), (5, "success"), (5.000001, "timeout")])
def test_what_was_stored_by_the_deadline_comes_before_its_timer(at_s: float, outcome: str):
    run = Driver(TIMED)
    signal = run.message("signal", "go", at_us=run.now_us + round(at_s * SECOND_US))
    run.now_us += 60 * SECOND_US
    run.tick(messages=[signal])
    assert run.state.nodes["w"].outcome == outcome


# --- events -----------------------------------------------------------------------------------------------------------

EVENT = "steps: [{ref: w, type: wait, event: paid, match: event.payload.id == trigger.id && event.payload.n > 1}]"


def test_an_event_whose_match_holds_brings_its_payload():
    run = Driver(EVENT, {"id": "o-1"})
    run.event("paid", {"id": "o-1", "n": 2})
    assert run.state.output == {"w": {"id": "o-1", "n": 2}}


def test_an_event_that_nothing_hears_passes_by_without_a_row():
    run = Driver(EVENT, {"id": "o-1"})
    rows = len(run.rows)
    run.event("paid", {"id": "o-1", "n": 1})
    run.event("paid", {"id": "o-2", "n": 2})
    run.event("shipped", {"id": "o-1", "n": 2})
    assert len(run.rows) == rows
    assert [run.disposition(f"event:e-{n}") for n in (1, 2, 3)] == ["consumed"] * 3
    assert run.state.inbox == {}


def test_one_event_reaches_all_waits_that_hear_it():
    run = Driver("""
    steps:
      - {ref: a, type: wait, event: paid}
      - {ref: b, type: wait, event: paid, match: event.payload > 5}
      - {ref: c, type: wait, event: paid, match: event.payload > 10}
    """)
    run.event("paid", 7)
    assert run.statuses() == {"a": "succeeded", "b": "succeeded", "c": "waiting"}
    assert sum(isinstance(event, MessageReceived) for event in run.events()) == 1


def test_an_event_older_than_its_wait_does_not_count():
    run = Driver("steps: [{ref: w, type: wait, event: paid}]")
    run.event("paid", 1, at_us=run.now_us - CLOCK_TOLERANCE_US - 1)
    assert run.statuses() == {"w": "waiting"}
    run.event("paid", 2, at_us=run.now_us - CLOCK_TOLERANCE_US)
    assert run.state.output == {"w": 2}


def test_a_lookback_takes_what_was_published_so_long_before():
    run = Driver("steps: [{ref: t, type: task, task: t, next: w}, {ref: w, type: wait, event: paid, lookback: 10s}]")
    run.advance(20)
    run.finish("t")
    assert run.waits["w", 0].since_us == run.now_us - 10 * SECOND_US - CLOCK_TOLERANCE_US
    run.event("paid", 1, at_us=run.now_us - 10 * SECOND_US - CLOCK_TOLERANCE_US - 1)
    assert run.statuses()["w"] == "waiting"
    run.event("paid", 2, at_us=run.now_us - 10 * SECOND_US - CLOCK_TOLERANCE_US)
    assert run.state.output == {"w": 2}


def test_a_match_sees_name_payload_id_and_time_of_the_event():
    match = "\"event.name == 'paid' && event.id == 'e-1' && event.at == '1970-01-01T00:00:01Z'\""
    run = Driver(f"steps: [{{ref: w, type: wait, event: paid, match: {match}}}]")
    run.event("paid")
    assert run.state.status == "completed"


FAILING = """
steps:
  - {ref: bad, type: wait, event: paid, match: event.payload.missing > 1, ON_ERROR next: {success: after, done: after}}
  - {ref: good, type: wait, event: paid}
  - {ref: after, type: transform, value: 1}
"""


def test_a_match_that_fails_fails_its_step_and_is_on_record_with_the_event():
    run = Driver(FAILING.replace("ON_ERROR", "on_error: continue,"))
    run.event("paid", {})
    assert run.statuses() == {"bad": "failed", "good": "succeeded", "after": "succeeded"}
    error = run.state.nodes["bad"].error
    assert error is not None
    assert error.type == "ExpressionError"
    assert "event.payload.missing > 1" in error.message
    assert "subject.yaml:5" in error.message
    taken = [event for event in run.events() if isinstance(event, MessageTaken)]
    assert [event.nodes for event in taken] == [("good",)]


def test_a_match_that_fails_for_good_closes_the_run_although_another_wait_hears_the_event():
    run = Driver(FAILING.replace("ON_ERROR", ""))
    run.event("paid", {})
    assert run.state.status == "failed"
    assert (run.statuses()["bad"], run.statuses()["good"]) == ("failed", "cancelled")
    assert run.disposition("event:e-1") == "consumed"


def test_of_two_matches_that_fail_for_good_the_first_ends_the_run_and_the_second_settles_once():
    run = Driver("""
    steps:
      - {ref: a, type: wait, event: paid, match: event.payload.missing > 1}
      - {ref: b, type: wait, event: paid, match: event.payload.missing > 2}
      - {ref: t, type: task, task: t}
    """)
    run.event("paid", {})
    assert {ref: run.statuses()[ref] for ref in "ab"} == {"a": "failed", "b": "cancelled"}
    assert len(settlements(run.events(), "b")) == 1


def test_of_a_step_and_a_handler_whose_matches_fail_the_step_ends_the_run_and_once():
    run = Driver("""
    on: [{event: paid, match: event.payload.missing > 2, effects: {x: 1}}]
    steps: [{ref: w, type: wait, event: paid, match: event.payload.missing > 1}]
    """)
    run.event("paid", {})
    assert run.state.error is not None
    assert "missing > 1" in run.state.error.message
    assert sum(isinstance(event, RunEnded) for event in run.events()) == 1


def test_a_match_is_decided_with_the_values_of_its_time():
    run = Driver("""
    context: {least: 5}
    steps:
      - {ref: t, type: task, task: t, effects: {least: 10}}
      - {ref: w, type: wait, event: paid, match: event.payload >= context.least}
    """)
    run.event("paid", 4)
    run.finish("t")
    run.event("paid", 7)
    assert run.statuses()["w"] == "waiting"
    run.event("paid", 10)
    assert run.state.status == "completed"


def test_one_events_first_taker_does_not_change_what_the_others_hear():
    run = Driver("""
    context: {n: 0}
    steps:
      - {ref: a, type: wait, event: paid, match: context.n == 0, effects: {n: 1}}
      - {ref: b, type: wait, event: paid, match: context.n == 0, effects: {n: 2}}
    """)
    run.event("paid")
    assert run.statuses() == {"a": "succeeded", "b": "succeeded"}


# --- where waits are filed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "path", "value"),
    [
        ("event.payload.id == trigger.id", "payload.id", '"o-1"'),
        ("trigger.n == event.payload.a.b && event.payload.x > 1", "payload.a.b", "7"),
        ("event.payload == config.key", "payload", '"k"'),
        ("event.payload.run == run.id", "payload.run", '"run-1"'),
        ("event.payload.id == context.fixed", "payload.id", '"f"'),
        ("event.payload.id == context.own", "payload.id", '"o"'),
        ("event.payload.id == steps.done.output", "payload.id", "3"),
        # filed under the name alone: the value may change, or there is no such value, or no equation
        ("event.payload.id == context.changing", "", ""),
        ("event.payload.id == context.handled", "", ""),
        ("event.payload.id == steps.beside.output", "", ""),
        ("event.payload.at == now", "", ""),
        ("event.payload.id == run.status", "", ""),
        ("event.payload.id == trigger.missing", "", ""),
        ("event.id == trigger.id", "", ""),
        ("event.payload.id == event.payload.other", "", ""),
        ("event.payload.id == trigger.id || event.payload.x > 1", "", ""),
        ("event.payload.id != trigger.id", "", ""),
    ],
)
def test_a_wait_is_filed_under_a_value_only_if_that_can_not_change(match: str, path: str, value: str):
    run = Driver(
        f"""
        config: {{key: k}}
        context: {{fixed: f, own: o, changing: c, handled: h}}
        on: [{{signal: s, effects: {{handled: 1}}}}]
        steps:
          - {{ref: done, type: transform, value: 3, next: w}}
          - {{ref: beside, type: task, task: t, effects: {{changing: 1}}}}
          - {{ref: w, type: wait, event: paid, match: "{match}", effects: {{own: 1}}}}
        """,
        {"id": "o-1", "n": 7},
    )
    wait = run.waits["w", 0]
    assert (wait.name, wait.key_path, wait.key_value) == ("paid", path, value)


@pytest.mark.parametrize("length", [255, 256])
def test_a_wait_is_filed_under_a_part_of_the_event_whose_name_fits(length: int):
    path = "payload." + "p" * (length - len("payload."))
    run = Driver(f"steps: [{{ref: w, type: wait, event: paid, match: event.{path} == trigger}}]", "x")
    assert run.waits["w", 0].key_path == (path if length == 255 else "")


def test_a_long_value_is_filed_by_its_hash():
    run = Driver("steps: [{ref: w, type: wait, event: paid, match: event.payload.id == trigger}]", "x" * 1_000)
    assert len(run.waits["w", 0].key_value) == 64


# --- messages that name their step ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "node"),
    [
        ("vote", "w"),
        ("vote", "case"),
        ("vote", "nobody"),
        ("vote", "task"),
        ("case", "approval"),
        ("case", "reply"),
        ("reply", "case"),
        ("reply", "w"),
    ],
)
def test_a_message_for_another_kind_of_step_is_undelivered(kind, node: str):
    run = Driver("""
    steps:
      - {ref: w, type: wait, signal: go}
      - {ref: approval, type: approval, approvers: [x]}
      - {ref: case, type: human_loop, title: t}
      - {ref: reply, type: interaction, ask: q}
      - {ref: task, type: task, task: t}
    """)
    before = run.statuses()
    payload: JsonValue = {"decision": "approved", "status": "resolved"}
    run.tick(messages=[run.message(kind, payload=payload, node=node, by="x")])
    assert run.statuses() == before
    assert run.disposition("m-1") == "undelivered"


def test_the_messages_of_one_node_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(messages_module, "MAX_MESSAGES_PER_NODE", 3)
    run = Driver("steps: [{ref: c, type: human_loop, title: t}]")
    for _ in range(4):
        run.work_case("c", "x", comment="more")
    assert [run.disposition(f"m-{n}") for n in (1, 2, 3, 4)] == ["consumed"] * 3 + ["undelivered"]


def test_too_many_events_fail_their_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(messages_module, "MAX_MESSAGES_PER_NODE", 3)
    run = Driver("steps: [{ref: s, type: event_set, events: [{name: a}], policy: until_timeout, timeout: 1h}]")
    for n in range(4):
        run.event("a", n)
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "TooManyEvents")
