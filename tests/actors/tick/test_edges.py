"""Edges, outcomes, choices: which steps follow."""

import pytest

from tests.actors.tick.driver import Driver

FORK = """
steps:
  - {ref: a, type: task, task: t, on_error: continue, next: {success: [b, c], error: d, done: e}}
  - {ref: b, type: task, task: t}
  - {ref: c, type: task, task: t}
  - {ref: d, type: task, task: t}
  - {ref: e, type: task, task: t}
"""


def test_success_takes_its_edges_and_then_done():
    run = Driver(FORK)
    payload = run.finish("a")
    assert payload.dispatched == ["b", "c", "e"]
    assert run.statuses()["d"] == "skipped"


def test_error_takes_its_edges_and_then_done():
    run = Driver(FORK)
    payload = run.fail("a")
    assert payload.dispatched == ["d", "e"]
    assert {run.statuses()[ref] for ref in "bc"} == {"skipped"}


def test_a_run_without_next_steps_completes_with_the_outputs_of_its_last_steps():
    run = Driver("steps: [{ref: a, type: task, task: t, next: b}, {ref: b, type: task, task: t}]")
    run.finish("a", 1)
    run.finish("b", {"x": 2})
    assert (run.state.status, run.state.output) == ("completed", {"b": {"x": 2}})


CHOICE = """
steps:
  - ref: a
    type: task
    task: t
    next: {choice: [{when: output > 10, to: big}, {when: output > 5, to: middle}, {to: small}]}
  - {ref: big, type: transform, value: 1}
  - {ref: middle, type: transform, value: 1}
  - {ref: small, type: transform, value: 1}
"""


@pytest.mark.parametrize(("output", "taken"), [(11, "big"), (6, "middle"), (1, "small")])
def test_the_first_branch_that_holds_is_the_only_one_taken(output, taken):
    run = Driver(CHOICE)
    run.finish("a", output)
    statuses = run.statuses()
    assert [ref for ref in ("big", "middle", "small") if statuses[ref] == "succeeded"] == [taken]
    assert run.state.status == "completed"


def test_a_choice_that_fails_to_evaluate_fails_the_step_without_retry_and_keeps_its_output():
    run = Driver(CHOICE.replace("task: t\n", "task: t\n    retry: {max_attempts: 5}\n"))
    run.finish("a", {"no": "number"})
    node = run.state.nodes["a"]
    assert (run.state.status, node.status, node.generation) == ("failed", "failed", 1)
    assert node.output == {"no": "number"}
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"


def test_choices_stand_beside_plain_edges_and_under_any_outcome():
    run = Driver("""
    steps:
      - ref: a
        type: task
        task: t
        on_error: continue
        next:
          error: [always, {choice: [{when: 'error.type == "Rare"', to: rare}, {to: usual}]}]
          done: {choice: [{when: "steps.a.status == 'failed'", to: alarm}, {to: calm}]}
      - {ref: always, type: transform, value: 1}
      - {ref: rare, type: transform, value: 1}
      - {ref: usual, type: transform, value: 1}
      - {ref: alarm, type: transform, value: 1}
      - {ref: calm, type: transform, value: 1}
    """)
    run.fail("a", "Rare")
    taken = sorted(ref for ref, status in run.statuses().items() if status == "succeeded")
    assert taken[:1] == ["always"]
    assert "rare" in taken
    assert "usual" not in taken


def test_choices_see_the_context_that_the_effects_made():
    run = Driver("""
    context: {n: 1}
    steps:
      - ref: a
        type: task
        task: t
        effects: {n: "${context.n + output}"}
        next: {choice: [{when: context.n == 3, to: b}, {to: c}]}
      - {ref: b, type: transform, value: "${context.n}"}
      - {ref: c, type: transform, value: 0}
    """)
    run.finish("a", 2)
    assert run.state.output == {"b": 3}


def test_effects_of_parallel_steps_follow_the_order_of_their_results():
    run = Driver("""
    context: {log: []}
    steps:
      - {ref: a, type: task, task: t, effects: {log: "${context.log + [output]}"}}
      - {ref: b, type: task, task: t, effects: {log: "${context.log + [output]}"}}
    """)
    second, first = run.success("b", "b"), run.success("a", "a")
    run.tick(results=[second, first])
    assert run.state.context == {"log": ["b", "a"]}


def test_effects_that_fail_to_evaluate_fail_the_step_and_change_nothing():
    run = Driver("""
    context: {n: 1}
    steps: [{ref: a, type: task, task: t, effects: {m: "${output.missing}"}}]
    """)
    run.finish("a", {})
    assert run.state.status == "failed"
    assert run.state.context == {"n": 1}


def test_a_conditional_takes_true_or_false():
    text = """
    steps:
      - {ref: a, type: conditional, when: trigger.n > 1, next: {"true": b, "false": c}}
      - {ref: b, type: transform, value: yes}
      - {ref: c, type: transform, value: no}
    """
    assert Driver(text, {"n": 2}).state.output == {"b": "yes"}
    assert Driver(text, {"n": 0}).state.output == {"c": "no"}


def test_a_conditional_that_fails_to_evaluate_fails_the_run_and_names_the_key():
    run = Driver(
        """
        steps:
          - {ref: a, type: conditional, when: trigger.n > 1, next: {"true": b}}
          - {ref: b, type: transform, value: 1}
        """,
        {},
    )
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert "n" in run.state.error.message
