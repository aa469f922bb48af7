"""Sugar: what may be written shorter means the same."""
# ruff: noqa: E501  (a case is one line)

import pytest

from ductor.definitions.errors import DefinitionError
from ductor.definitions.model import Edge
from ductor.definitions.parse import parse_text
from ductor.definitions.policies import Lease, Repeat, Retry, Timeouts
from ductor.definitions.steps import ScatterStep, TaskStep


def definition_of(rest, head=""):
    (definition,) = parse_text(f"ductor: 1\nname: subject\n{head}{rest}\n")
    return definition


def task_of(fields):
    (step,) = definition_of(f"steps: [{{ref: a, type: task, task: t, {fields}}}]").steps
    return step


def edges_of(next_value):
    rest = ", ".join(f"{{ref: {ref}, type: task, task: t}}" for ref in "bcd")
    return set(definition_of(f"steps: [{{ref: a, type: task, task: t, next: {next_value}}}, {rest}]").edges)


def edge(to, outcome="success", **fields):
    return Edge(source="a", outcome=outcome, to=to, **fields)


@pytest.mark.parametrize(
    ("value", "edges"),
    [
        ("b", {edge("b")}),
        ("[b, c]", {edge("b"), edge("c")}),
        ("{success: b}", {edge("b")}),
        ("{success: [b, c], done: d}", {edge("b"), edge("c"), edge("d", "done")}),
        (
            "{choice: [{when: output.x, to: b}, {to: c}]}",
            {edge("b", group=0, order=0, when="output.x"), edge("c", group=0, order=1)},
        ),
        (
            "{error: [b, {choice: [{when: output.x, to: c}, {to: d}]}]}",
            {
                edge("b", "error"),
                edge("c", "error", group=0, order=0, when="output.x"),
                edge("d", "error", group=0, order=1),
            },
        ),
        (
            "[{choice: [{when: x, to: b}, {to: c}]}, {choice: [{when: y, to: b}, {to: d}]}]",
            {
                edge("b", group=0, order=0, when="x"),
                edge("c", group=0, order=1),
                edge("b", group=1, order=0, when="y"),
                edge("d", group=1, order=1),
            },
        ),
        ("{choice: [{when: true, to: b}, {to: c}]}", {edge("b", group=0, when="true"), edge("c", group=0, order=1)}),
    ],
)
def test_forms_of_next(value, edges):
    assert edges_of(value) == edges


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ("retry: 5", "retry", (Retry(max_attempts=5),)),
        ("retry: {max_attempts: 5, initial: 2s, max: PT1M}", "retry", (Retry(max_attempts=5, initial_ms=2000, max_ms=60_000),)),
        ("retry: [{only: X, max_attempts: 9}, 2]", "retry", (Retry(only=("X",), max_attempts=9), Retry(max_attempts=2))),
        ("retry: {except: [A, B]}", "retry", (Retry(exclude=("A", "B")),)),
        ("retry: {initial: 1h}", "retry", (Retry(initial_ms=3_600_000, max_ms=3_600_000),)),
        ("timeout: 30s", "timeout", Timeouts(attempt_ms=30_000)),
        ("timeout: {start: 1m, total: 1h30m, heartbeat: 250ms}", "timeout", Timeouts(start_ms=60_000, total_ms=5_400_000, heartbeat_ms=250)),
        ("join: 2", "join", 2),
        ("join: any", "join", "any"),
        ("cancels: b", "cancels", ("b",)),
        ("tags: [x, y]", "tags", ("x", "y")),
        ("run_if: true", "run_if", "true"),
        ("priority: 3.0", "priority", 3),
        ("repeat: {until: output.ok, every: 5s}", "repeat", Repeat(until="output.ok", every_ms=5000)),
        ("lease: {key: k, limit: 3, timeout: 1m}", "lease", Lease(key="k", limit=3, timeout_ms=60_000)),
    ],
)  # fmt: skip
def test_forms_of_fields(fields, attribute, value):
    assert getattr(task_of(fields), attribute) == value


def test_defaults_fill_what_a_step_does_not_say():
    definition = definition_of(
        """
defaults:
  task: {retry: 3, timeout: 30s, queue: slow}
steps:
  - {ref: a, type: task, task: t}
  - {ref: b, type: task, task: t, retry: 7, queue: default}
  - {ref: c, type: conditional, when: "true"}
  - {ref: d, type: scatter, items_expr: "[1]", do: {type: task, task: t}}
defer:
  - {ref: e, type: task, task: t}
"""
    )
    first, second, _, scattering = definition.steps
    (deferred,) = definition.defer
    assert (first.retry, first.timeout, first.queue) == ((Retry(max_attempts=3),), Timeouts(attempt_ms=30_000), "slow")
    assert (second.retry, second.timeout, second.queue) == (
        (Retry(max_attempts=7),),
        Timeouts(attempt_ms=30_000),
        "default",
    )
    assert isinstance(scattering, ScatterStep)
    assert isinstance(scattering.do, TaskStep)
    assert scattering.do.queue == deferred.queue == "slow"


def test_a_wait_hears_a_signal_and_sends_others():
    heard, sent = definition_of(
        """
steps:
  - {ref: a, type: wait, signal: go}
  - {ref: b, type: wait, until: "2026-11-30T08:00:00+01:00", signal: {run: "${trigger.run}", name: go}}
"""
    ).steps
    assert (heard.signal_name, heard.signal) == ("go", ())
    assert (sent.signal_name, sent.signal[0].name, sent.until_us) == (None, "go", 1_796_022_000_000_000)


def test_inline_bodies_are_kept_by_the_path_of_refs():
    definition = definition_of(
        """
steps:
  - ref: fan
    type: scatter
    items_expr: trigger.items
    do:
      steps:
        - {ref: one, type: task, task: t, input: "${item}", next: two}
        - {ref: two, type: subworkflow, do: {steps: [{ref: one, type: task, task: t}], output: 7}}
      output: "${steps.two.output}"
"""
    )
    assert list(definition.bodies) == ["fan/two", "fan"]
    assert [step.ref for step in definition.bodies["fan"].steps] == ["one", "two"]
    assert definition.bodies["fan"].edges == (Edge(source="one", outcome="success", to="two"),)
    assert definition.bodies["fan/two"].output == 7
    assert definition.edges == ()


def test_a_file_may_hold_several_definitions():
    text = "---\n".join(f"name: {name}\nsteps: [{{ref: a, type: task, task: t}}]\n" for name in ("one", "two"))
    assert [definition.name for definition in parse_text(text)] == ["one", "two"]


def test_the_ending_of_the_name_tells_json():
    text = '{"name": "a", "steps": [{"ref": "a", "type": "task", "task": "t"}]}'
    assert parse_text(text, file="a.json") == parse_text(text) == parse_text(text, text_format="json")


def test_a_byte_order_mark_is_passed_over():
    text = "\ufeffname: a\nsteps: [{ref: a, type: task, task: t}]\n"
    assert parse_text(text) == parse_text(text.encode())


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty_document"),
        ("# nothing\n---\n", "empty_document"),
        (b"name: \xff", "invalid_utf8"),
        ("name: \ud800", "invalid_utf8"),
    ],
)
def test_texts_without_a_definition(text, code):
    with pytest.raises(DefinitionError) as caught:
        parse_text(text)
    assert [problem.code for problem in caught.value.problems] == [code]


def test_bytes_that_are_no_text_are_placed():
    with pytest.raises(DefinitionError) as caught:
        parse_text("name: é\nversion: ".encode() + b"\xe9")
    (problem,) = caught.value.problems
    assert (problem.place.line, problem.place.column) == (2, 10)
