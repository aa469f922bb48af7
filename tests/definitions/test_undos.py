"""The undo of a step as a node of its own."""

import pytest

from ductor.definitions.manifest import encode_manifest
from ductor.definitions.policies import Compensation, Timeouts
from ductor.definitions.program import load_program
from ductor.definitions.steps import SubworkflowStep, TaskStep
from tests.definitions.marked import compile_one

TEXT = """\
name: trip
steps:
  - ref: car
    type: task
    task: cars.take
    queue: cars
    priority: 7
    timeout: 1m
    retry: 9
    compensate: {task: cars.give_back, input: {id: "${output.id}"}, retry: 5, timeout: {attempt: 30s, heartbeat: 5s}}
  - {ref: note, type: transform, value: 1, compensate: {task: notes.forget}}
  - {ref: hotel, type: subworkflow, definition: hotel, compensate: {child: true}}
  - {ref: each, type: scatter, items_expr: "[1]", do: {type: task, task: t, compensate: {task: u, input: "${item}"}}}
  - {ref: plain, type: task, task: t}
"""


@pytest.fixture(scope="module")
def program():
    return load_program(compile_one(TEXT).manifest)


def test_an_undo_is_a_task_of_its_own_on_the_queue_of_its_step(program):
    node = program.node("car.compensate")
    assert isinstance(node.step, TaskStep)
    assert (node.ref, node.undoes, node.step.task, node.step.queue, node.step.priority) == (
        "car.compensate",
        "car",
        "cars.give_back",
        "cars",
        7,
    )
    assert node.step.timeout == Timeouts(attempt_ms=30_000, heartbeat_ms=5_000)
    assert [policy.max_attempts for policy in node.step.retry] == [5]
    assert node.step.compensate is None


def test_a_step_outside_of_workers_is_undone_on_the_default_queue(program):
    node = program.node("note.compensate")
    assert (node.step.task, node.step.queue, node.step.timeout) == ("notes.forget", "default", Timeouts())


def test_the_undo_of_a_child_run_is_a_wait_for_it(program):
    node = program.node("hotel.compensate")
    assert isinstance(node.step, SubworkflowStep)
    assert (node.undoes, node.input) == ("hotel", None)


def test_the_undo_of_a_scatters_child_knows_its_item(program):
    node = program.node("each[3].compensate")
    assert (node.undoes, node.scatter, node.index) == ("each[3]", "each", 3)


@pytest.mark.parametrize(
    "ref", ["plain.compensate", "each.compensate", "nobody.compensate", "car.compensate.compensate"]
)
def test_what_has_no_undo_has_no_such_node(program, ref: str):
    with pytest.raises(KeyError):
        program.node(ref)


def test_a_manifest_without_timeout_is_the_same_as_before_undos_had_one():
    text = "name: a\nsteps: [{ref: a, type: task, task: t, compensate: {task: u}}]\n"
    assert b"timeout" not in encode_manifest(compile_one(text).manifest)
    assert Compensation(task="u").timeout == Timeouts()
