"""`on`: messages heard at any time while the run lives."""

import pytest

from ductor.actors.tick.event_waits import CLOCK_TOLERANCE_US
from ductor.journal.events import MessageTaken
from tests.actors.tick.driver import Driver

TASK = "steps: [{ref: t, type: task, task: t}, {ref: w, type: wait, signal: go}]"


def test_a_signal_changes_the_context():
    run = Driver("context: {address: old}\non: [{signal: move, effects: {address: '${event.payload.to}'}}]\n" + TASK)
    run.signal("move", {"to": "new"})
    assert run.state.context == {"address": "new"}
    assert run.disposition("m-1") == "consumed"
    run.signal("move", {"to": "newer"})
    assert run.state.context == {"address": "newer"}


def test_a_handler_of_events_is_filed_once():
    run = Driver("on: [{event: move, effects: {x: 1}}]\n" + TASK)
    filed = dict(run.waits)
    run.advance(5)
    payload = run.finish("t")
    assert payload.outbox is None
    assert run.waits == filed


def test_a_signal_cancels_steps_and_takes_none_of_their_edges():
    run = Driver("on: [{signal: stop, cancels: [t, w]}]\n" + TASK)
    run.signal("stop")
    assert run.statuses() == {"t": "cancelled", "w": "cancelled"}
    assert run.withdrawn == ["t"]
    assert run.state.status == "completed"


def test_a_handler_and_a_wait_both_hear_a_signal_and_the_handler_first():
    run = Driver("""
    context: {n: 0}
    on: [{signal: go, effects: {n: '${context.n + 1}'}}]
    steps: [{ref: w, type: wait, signal: go, effects: {seen: '${context.n}'}}]
    """)
    run.signal("go", 1)
    assert run.state.status == "completed"
    assert run.state.context == {"n": 1, "seen": 1}
    (taken,) = [event for event in run.events() if isinstance(event, MessageTaken)]
    assert taken.nodes == ("w",)


def test_a_handler_may_cancel_the_wait_that_was_to_have_the_signal():
    run = Driver("on: [{signal: go, cancels: [w]}]\n" + TASK)
    run.signal("go")
    assert run.statuses()["w"] == "cancelled"


def test_several_handlers_hear_one_message_in_their_order():
    run = Driver("""
    context: {n: 1}
    on:
      - {signal: go, effects: {n: '${context.n * 2}'}}
      - {signal: go, effects: {n: '${context.n + 3}'}}
    steps: [{ref: t, type: task, task: t}]
    """)
    run.signal("go")
    assert run.state.context == {"n": 5}


def test_an_event_handler_is_filed_for_the_runs_life_and_chooses_by_match():
    run = Driver(
        "on: [{event: paid, match: event.payload.id == trigger.id, effects: {paid: '${event.payload.n}'}}]\n" + TASK,
        {"id": "o-1"},
    )
    wait = run.waits["@on", 0]
    assert (wait.name, wait.key_path, wait.key_value) == ("paid", "payload.id", '"o-1"')
    rows = len(run.rows)
    run.event("paid", {"id": "o-2", "n": 2})
    assert len(run.rows) == rows
    run.event("paid", {"id": "o-1", "n": 3})
    assert run.state.context == {"paid": 3}
    run.request("terminate")
    assert run.waits == {}


def test_an_event_from_before_the_run_is_not_for_its_handlers():
    run = Driver(
        """
        on: [{event: paid, effects: {heard: true}}]
        steps: [{ref: w, type: wait, event: paid, lookback: 1h}]
        """
    )
    run.event("paid", at_us=run.now_us - CLOCK_TOLERANCE_US - 1)
    assert (run.statuses()["w"], run.state.context) == ("succeeded", {})


def test_clocks_that_differ_a_little_lose_no_event_of_a_handler():
    text = "on: [{event: paid, effects: {heard: true}}]\nsteps: [{ref: w, type: wait, signal: go}]"
    run = Driver(text)
    run.event("paid", at_us=run.now_us - CLOCK_TOLERANCE_US)
    assert run.state.context == {"heard": True}


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        ("{event: paid, match: event.payload.missing == 1, effects: {a: 1}}", "`on[0].match` failed"),
        ("{event: paid, effects: {a: '${event.payload.missing}'}}", "`on[0].effects` failed"),
    ],
)
def test_a_handler_that_fails_fails_the_run(handler: str, said: str):
    run = Driver(f"on: [{handler}, {{event: paid, effects: {{b: 1}}}}]\nsteps: [{{ref: w, type: wait, event: paid}}]")
    run.event("paid", {})
    assert (run.state.status, run.state.reason) == ("failed", said)
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"
    assert run.state.context == {}


def test_a_handlers_match_that_has_no_value_to_file_under_does_not_fail_the_start():
    run = Driver("on: [{event: paid, match: event.payload.id == trigger.missing}]\n" + TASK, {})
    assert run.state.status == "running"
    assert run.waits["@on", 0].key_path == ""


def test_nothing_is_heard_while_the_run_is_closing():
    run = Driver("on: [{signal: go, effects: {a: 1}}]\n" + TASK)
    run.request("cancel")
    run.signal("go")
    assert (run.state.context, run.disposition("m-1")) == ({}, "undelivered")


def test_a_run_that_ends_with_its_first_row_leaves_no_wait_behind():
    run = Driver("on: [{event: paid, effects: {a: 1}}]\nsteps: [{ref: a, type: transform, value: 1}]")
    assert run.state.status == "completed"
    assert run.waits == {}


def test_a_signal_that_only_a_handler_hears_does_not_wait_for_a_later_step():
    run = Driver("""
    on: [{signal: go, effects: {heard: true}}]
    steps: [{ref: t, type: task, task: t, next: w}, {ref: w, type: wait, signal: go}]
    """)
    run.signal("go")
    run.finish("t")
    assert run.statuses()["w"] == "waiting"
