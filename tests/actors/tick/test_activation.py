"""What expressions see of a run and its steps."""

import msgspec
import pytest

from ductor.actors.tick.activation import StateActivation
from ductor.definitions.values import JsonValue
from tests.actors.tick.driver import Driver

LOOK = """
config: {rate: 2}
context: {n: 1}
steps:
  - {ref: good, type: task, task: t, next: look}
  - {ref: bad, type: task, task: t, on_error: continue, next: {done: look}}
  - {ref: none, type: task, task: t, run_if: 'false', next: look}
  - {ref: other, type: task, task: t, input: "${steps.look}"}
  - {ref: look, type: task, task: t, input: "${steps}"}
"""


def test_a_step_is_seen_with_what_has_become_of_it():
    run = Driver(LOOK)
    run.finish("good", 7)
    run.fail("bad")
    seen = run.state.nodes["look"].input
    error: JsonValue = {"type": "Boom", "message": "bad failed", "details": None}
    assert seen == {
        "good": {"output": 7, "error": None, "status": "succeeded", "outcome": "success", "attempts": 1},
        "bad": {"output": None, "error": error, "status": "failed", "outcome": "error", "attempts": 1},
        "none": {"output": None, "error": None, "status": "skipped", "outcome": None, "attempts": 0},
        "other": {"output": None, "error": None, "status": "running", "outcome": None, "attempts": 1},
        "look": {"output": None, "error": None, "status": "pending", "outcome": None, "attempts": 0},
    }
    nothing: JsonValue = {"output": None, "error": None, "status": "pending", "outcome": None, "attempts": 0}
    assert run.state.nodes["other"].input == nothing


@pytest.mark.parametrize(("parent", "root", "seen_root"), [(None, None, "run-1"), ("above", "top", "top")])
def test_a_run_sees_itself(parent: str | None, root: str | None, seen_root: str):
    run = Driver("steps: [{ref: a, type: task, task: t, input: '${run}'}]", starts=False)
    run.tick(started=msgspec.structs.replace(run.started, parent_run_id=parent, root_run_id=root, iteration=2))
    assert run.state.nodes["a"].input == {
        "id": "run-1", "tenant": "t", "definition": "subject", "started_at": "1970-01-01T00:00:01Z", "parent": parent,
        "root": seen_root, "iteration": 2, "status": "pending", "error": None,
    }  # fmt: skip


def test_a_run_began_when_it_began():
    run = Driver("steps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: task, task: t, input: '${run}'}]")
    run.advance(5)
    run.finish("a")
    seen = run.state.nodes["b"].input
    assert isinstance(seen, dict)
    assert (seen["started_at"], seen["status"]) == ("1970-01-01T00:00:01Z", "running")


def test_a_variable_that_there_is_not_is_no_null():
    run = Driver(LOOK)
    seen = StateActivation(run.program, run.state, run.now_us)
    assert (seen.lookup("config"), seen.lookup("context")) == ({"rate": 2}, {"n": 1})
    with pytest.raises(KeyError, match="item"):
        seen.lookup("item")
    assert seen.with_own({"item": 3}).lookup("item") == 3
