"""`repeat` of a `subworkflow`: when the next round begins, and when it is the last."""

import pytest

from ductor.journal.events import NodeParked
from tests.actors.tick.test_subworkflows import parent


def test_each_round_has_a_child_of_its_own():
    run = parent("repeat: {until: output.done, every: 5s, max: 3}")
    first = run.child("call")
    run.report("call", output={"done": False})
    assert run.state.nodes["call"].waiting == "repeat"
    late = run.reported("call", output={"done": True}, run_id=first.run_id)
    run.dispositions.clear()
    run.tick(messages=[late])
    assert run.disposition(late.id) == "undelivered"
    run.advance(5)
    second = run.child("call")
    assert second.run_id != first.run_id
    assert second.started.parent_generation == 2
    run.report("call", output={"done": True})
    assert list(run.in_flight) == ["after"]


@pytest.mark.parametrize("every_s", [0, 5])
@pytest.mark.parametrize(("on_max", "begun"), [("continue", ["after"]), ("fail", [])])
def test_rounds_are_bounded(on_max: str, begun: list[str], every_s: int):
    run = parent(f"repeat: {{until: output.done, every: {every_s}s, max: 3, on_max: {on_max}}}")
    for iteration in range(3):
        assert run.state.nodes["call"].iteration == iteration
        run.report("call", output={"done": False})
        run.advance(every_s)
    assert len(run.children) == 3
    assert list(run.in_flight) == begun
    error = run.state.nodes["call"].error
    assert (error is not None and error.type) == (on_max == "fail" and "RepeatExhausted")
    assert run.state.status == ("failed" if on_max == "fail" else "running")


def test_a_round_without_a_pause_begins_in_the_row_that_ended_the_one_before_it():
    run = parent("repeat: {until: output.done, max: 3}")
    rows = len(run.rows)
    run.report("call", output={"done": False})
    assert (len(run.children), len(run.rows)) == (2, rows + 1)
    assert not any(isinstance(event, NodeParked) for event in run.events())


@pytest.mark.parametrize("every_ms", [1, 5_000])
def test_a_round_does_not_begin_before_its_pause_is_over(every_ms: int):
    run = parent(f"repeat: {{until: output.done, every: {every_ms}ms, max: 3}}")
    run.report("call", output={"done": False})
    assert run.advance(every_ms / 1_000 - 0.000001).events == []
    assert len(run.children) == 1
    run.advance(0.000001)
    assert len(run.children) == 2


def test_an_end_of_rounds_that_fails_to_evaluate_fails_the_step():
    run = parent("repeat: {until: output.done, max: 3}")
    run.report("call", output={})
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type, len(run.children)) == ("failed", "ExpressionError", 1)
