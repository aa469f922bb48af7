"""Expressions that fail where a result, a report or a message has come, and not where a step starts."""

import pytest

from ductor.definitions.values import JsonValue
from tests.actors.tick.driver import Driver

ROUNDS = """
context: {v: {x: 1}}
on: [{signal: spoil, effects: {v: {}}}]
steps: [{ref: a, FIELDS, input: {x: "${context.v.x}"}, repeat: {until: "false", max: 3}}]
"""


def error_type(run: Driver, ref: str) -> str:
    """What the step has failed with."""
    node = run.state.nodes[ref]
    assert node.status == "failed"
    assert node.error is not None
    return node.error.type


def test_the_input_of_the_next_round_of_a_task_fails_it():
    run = Driver(ROUNDS.replace("FIELDS", "type: task, task: t"))
    run.signal("spoil")
    run.finish("a")
    assert (error_type(run, "a"), run.state.status, run.in_flight) == ("ExpressionError", "failed", {})


def test_the_input_of_the_next_child_fails_its_step():
    run = Driver(ROUNDS.replace("FIELDS", "type: subworkflow, do: {steps: [{ref: b, type: task, task: t}]}"))
    run.signal("spoil")
    run.report("a")
    assert (error_type(run, "a"), run.state.status, len(run.children)) == ("ExpressionError", "failed", 1)


def test_an_event_that_makes_a_set_too_large_fails_it():
    run = Driver("steps: [{ref: s, type: event_set, events: [{name: a}], policy: count, count: 9, timeout: 1h}]")
    for _ in range(9):
        run.event("a", "x" * 1_000_000)
    assert (error_type(run, "s"), run.state.status) == ("ValueRefused", "failed")


@pytest.mark.parametrize(("trigger", "status"), [({}, "failed"), ({"n": 1}, "skipped")])
def test_a_choice_that_fails_fails_a_step_that_its_guard_skips(trigger: JsonValue, status: str):
    run = Driver(
        """
        steps:
          - {ref: a, type: task, task: t, run_if: "false", next: {choice: [{when: trigger.n > 5, to: b}, {to: c}]}}
          - {ref: b, type: task, task: t}
          - {ref: c, type: task, task: t}
        """,
        trigger,
    )
    assert run.statuses()["a"] == status
    assert set(run.in_flight) == ({"c"} if status == "skipped" else set())


def test_an_input_that_no_row_takes_is_refused_to_a_redrive():
    run = Driver("steps: [{ref: a, type: task, task: t}]")
    run.fail("a")
    run.request("redrive", input="x" * 20_000_000)
    assert run.state.status == "failed"
    assert "input of step a" in run.refusals[0]
