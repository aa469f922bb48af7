"""What compiles and can't run in this version."""
# ruff: noqa: E501  (a case is one line)

import pytest

from ductor.actors.steps import RUNNABLE_TYPES
from ductor.definitions.compile import compile_text
from ductor.definitions.steps import STEP_TYPES
from ductor.definitions.unsupported import refuse_unsupported
from tests.definitions.marked import compile_one, unmark
from tests.definitions.test_compile import EXAMPLES, WHOLE_LANGUAGE

RUNNABLE = frozenset({"task", "transform", "conditional", "rule", "scatter"})
"""Enough for what is refused here; examples use whatever runs."""


@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if not path.name.endswith(".scenario.yaml")], ids=lambda path: path.stem
)
def test_examples_can_run(path):
    for compiled in compile_text(path.read_bytes(), file=path.name):
        assert refuse_unsupported(compiled, RUNNABLE_TYPES) == []


@pytest.mark.parametrize(
    ("said", "marked"),
    [
        ("step `b` has type `approval`", "steps: [{ref: a, type: task, task: t}, {ref: b, type: »approval, approvers: [x]}]"),
        ("step `b` has type `wait`", "steps: [{ref: a, type: task, task: t}]\ndefer: [{ref: b, type: »wait, duration: 1s}]"),
        ("step `b` has type `rule`, which can't run under `defer`", "steps: [{ref: a, type: task, task: t}]\ndefer: [{ref: b, type: »rule, rules: [{when: 'true'}]}]"),
        ("the child of step `a` has type `connector`", "steps: [{ref: a, type: scatter, items_expr: '[1]', do: {type: »connector, connector: c, operation: o}}]"),
        ("step `a/b` has type `wait`", "steps: [{ref: a, type: scatter, items_expr: '[1]', do: {steps: [{ref: b, type: »wait, duration: 1s}]}}]"),
    ],
)  # fmt: skip
def test_one_problem_for_each_part_with_its_place(said, marked):
    text, positions = unmark(f"name: x\n{marked}\n")
    (problem,) = refuse_unsupported(compile_one(text), RUNNABLE)
    assert said in problem.message
    assert "in this version" in problem.message
    assert problem.code == "unsupported"
    assert [(problem.place.line, problem.place.column)] == positions


def test_every_type_is_refused_where_nothing_has_behaviour():
    (compiled,) = compile_text(WHOLE_LANGUAGE.read_text())
    messages = " ".join(problem.message for problem in refuse_unsupported(compiled, frozenset()))
    assert all(f"type `{name}`" in messages for name in STEP_TYPES)


def test_what_is_sent_heard_and_triggered_has_behaviour():
    compiled = compile_one("""
    name: x
    triggers: [{event: e}]
    on: [{signal: s, effects: {a: 1}}, {event: e, cancels: [a]}]
    steps:
      - ref: a
        type: task
        task: t
        emit: [{event: done}]
        signal: [{run: "${trigger}", name: go}]
    """)
    assert refuse_unsupported(compiled, RUNNABLE) == []


def test_where_every_type_has_behaviour_all_of_the_language_runs():
    (compiled,) = compile_text(WHOLE_LANGUAGE.read_text())
    types = frozenset(STEP_TYPES)
    assert refuse_unsupported(compiled, types, defer_types=types) == []
