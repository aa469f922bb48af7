"""Every limit holds, and one step below it all is well. (Limits of single texts are in `test_yaml` and `test_json`.)"""
# ruff: noqa: E501  (a case is one line)

import pytest

from ductor.definitions.compile import compile_definition, compile_text
from ductor.definitions.errors import DefinitionError
from ductor.definitions.limits import Limits
from ductor.definitions.model import Definition
from ductor.definitions.steps import TaskStep

TWO = "name: a\nsteps: [{ref: a, type: task, task: t, next: [b, c]}, {ref: b, type: task, task: t}, {ref: c, type: task, task: t}]\n"
RACE = (
    "name: a\nsteps: [{ref: a, type: task, task: t, next: c}, {ref: b, type: task, task: t, next: c},"
    " {ref: c, type: task, task: t, join: any, cancel_rest: true}]\n"
)
BODY = "{ref: a, type: subworkflow, do: {steps: [%s]}}"
LEAF = "{ref: a, type: task, task: t}"


@pytest.mark.parametrize(
    ("limit", "fits", "text"),
    [
        ("document_bytes", len(TWO.encode()), TWO),
        ("documents", 2, "---\n".join(f"name: n{number}\nsteps: [{LEAF}]\n" for number in range(2))),
        ("steps", 3, TWO),
        ("steps", 2, f"name: a\nsteps: [{LEAF}]\ndefer: [{{ref: b, type: task, task: t}}]\n"),
        ("steps", 2, f"name: a\nsteps: [{BODY % LEAF}]\n"),
        ("edges", 2, TWO),
        ("choice_branches", 2, "name: a\nsteps: [{ref: a, type: task, task: t, next: {choice: [{when: 'true', to: b}, {to: b}]}}, {ref: b, type: task, task: t}]\n"),
        ("handlers", 2, f"name: a\ntriggers: [{{event: x}}, {{event: y}}]\nsteps: [{LEAF}]\n"),
        ("handlers", 2, f"name: a\non: [{{event: x}}, {{event: y}}]\nsteps: [{LEAF}]\n"),
        ("cancel_rest_reach", 2, RACE),
        ("body_depth", 2, f"name: a\nsteps: [{BODY % (BODY % LEAF)}]\n"),
        ("schema_bytes", len('{"type":"object"}'), f"name: a\ninput: {{type: object}}\nsteps: [{LEAF}]\n"),
        ("manifest_bytes", len('{"entrypoints":["a"],"name":"a","steps":[{"ref":"a","task":"t","type":"task"}]}'), f"name: a\nsteps: [{LEAF}]\n"),
    ],
)  # fmt: skip
def test_limits_of_texts(limit, fits, text):
    assert compile_text(text, limits=Limits(**{limit: fits}))
    with pytest.raises(DefinitionError) as caught:
        compile_text(text, limits=Limits(**{limit: fits - 1}))
    assert [problem.code for problem in caught.value.problems] == ["limit_exceeded"]
    assert f"limit `{limit}`" in str(caught.value)


def test_limits_hold_for_definitions_made_by_hand():
    steps = tuple(TaskStep(ref=f"s{number}", task="t") for number in range(3))
    assert len(compile_definition(Definition(name="a", steps=steps), limits=Limits(steps=3)).steps) == 3
    with pytest.raises(DefinitionError, match="limit `steps`"):
        compile_definition(Definition(name="a", steps=steps), limits=Limits(steps=2))


def test_problems_are_told_up_to_their_limit():
    text = "name: a\nsteps:\n" + "".join(f"  - {{ref: s{number}, type: tsk}}\n" for number in range(4))
    with pytest.raises(DefinitionError) as caught:
        compile_text(text, limits=Limits(problems=4))
    assert [problem.code for problem in caught.value.problems] == ["unknown_type"] * 4
    with pytest.raises(DefinitionError) as caught:
        compile_text(text, limits=Limits(problems=3))
    assert [problem.code for problem in caught.value.problems] == ["unknown_type"] * 3 + ["more_problems"]


def test_many_problems_take_no_longer_than_few():
    """Each unknown key is compared with all valid ones; a hundred thousand of them end at the limit."""
    text = "".join(f"k{number}: 1\n" for number in range(30_000))
    with pytest.raises(DefinitionError) as caught:
        compile_text(text)
    assert len(caught.value.problems) == Limits().problems + 1


def test_ten_thousand_steps_compile():
    count = Limits().steps
    steps = tuple(TaskStep(ref=f"s{number}", task="t") for number in range(count))
    assert len(compile_definition(Definition(name="a", steps=steps)).steps) == count
