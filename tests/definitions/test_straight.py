"""Which steps lead straight to another."""

import pytest

from ductor.definitions.program import load_program
from tests.definitions.marked import compile_one

CHAIN = """\
name: order
steps:
  - {ref: a, type: task, task: t, next: b}
  - {ref: b, type: task, task: t, input: {n: "${steps.a.output}"}, next: c}
  - {ref: c, type: task, task: t}
"""


def ways(text: str) -> dict[str, str]:
    compiled = compile_one(text)
    program = load_program(compiled.manifest, places=compiled.places)
    return {ref: node.ref for ref, node in program.straight_ways.items()}


def test_plain_tasks_in_a_line_lead_straight_on():
    assert ways(CHAIN) == {"a": "b", "b": "c"}


@pytest.mark.parametrize(
    "more",
    [
        "repeat: {until: output.done, max: 3}",
        "effects: {n: 1}",
        "emit: [{event: e}]",
        "checkpoint: here",
        "compensate: {task: undo}",
        "lease: {key: k}",
        "cancels: [c]",
        "next: [b, c]",
        "next: {success: b, error: c}, on_error: continue",
        "next: {success: [{choice: [{when: 'true', to: b}, {to: c}]}]}",
    ],
)
def test_a_step_that_does_more_than_settle_does_not(more):
    text = CHAIN.replace("task: t, next: b}", f"task: t, {more}}}" if "next" in more else f"task: t, next: b, {more}}}")
    assert "a" not in ways(text)


@pytest.mark.parametrize(
    "more", ["run_if: trigger.x", "lease: {key: k}", "join: 1", "tasks: [t, u]", "join: any, cancel_rest: true"]
)
def test_none_leads_straight_to_a_step_that_does_more_than_start(more):
    text = CHAIN.replace("ref: b, type: task, task: t", f"ref: b, type: task, {_task(more)}, {more}")
    assert "a" not in ways(text)


def _task(more: str) -> str:
    return 'task: "${trigger.x}"' if "tasks" in more else "task: t"


def test_none_leads_straight_to_a_join():
    text = "name: order\nsteps:\n" + "\n".join(
        f"  - {{ref: {ref}, type: task, task: t, next: c}}" for ref in ("a", "b")
    )
    assert ways(text + "\n  - {ref: c, type: task, task: t}\n") == {}


@pytest.mark.parametrize("more", ["continue_as_new_after: 100", "lease: {key: k}"])
def test_there_are_none_where_runs_are_looked_at_whenever_a_step_starts(more):
    assert ways(CHAIN.replace("name: order", f"name: order\n{more}")) == {}


def test_steps_of_defer_lead_nowhere():
    text = CHAIN + "defer:\n  - {ref: d, type: task, task: t}\n"
    assert ways(text) == {"a": "b", "b": "c"}
