"""Joins, dead paths, guards, withdrawals."""

import itertools

import pytest

from ductor.actors.tick.schedule import join_answer
from tests.actors.tick.driver import Driver


def diamond(join: str, extra: str = "") -> str:
    return f"""
steps:
  - {{ref: a, type: task, task: t, on_error: continue, next: j}}
  - {{ref: b, type: task, task: t, on_error: continue, next: j}}
  - {{ref: c, type: task, task: t, on_error: continue, next: j}}
  - {{ref: j, type: task, task: t, join: {join}{extra}}}
"""


def test_all_runs_when_every_edge_is_settled_and_one_was_taken():
    run = Driver(diamond("all"))
    run.fail("a")
    run.finish("b")
    assert run.statuses().get("j") == "pending"
    assert run.fail("c").dispatched == ["j"]


def test_all_is_skipped_when_no_edge_was_taken():
    run = Driver(diamond("all"))
    for ref in "abc":
        run.fail(ref)
    assert run.statuses()["j"] == "skipped"
    assert run.state.status == "completed"


def test_every_is_skipped_as_soon_as_one_edge_is_not_taken():
    run = Driver(diamond("every"))
    run.finish("a")
    run.fail("b")
    assert run.statuses()["j"] == "skipped"
    run.finish("c")
    assert run.state.status == "completed"


def test_any_runs_at_the_first_taken_edge_and_once():
    run = Driver(diamond("any"))
    run.fail("a")
    assert run.finish("b").dispatched == ["j"]
    assert run.finish("c").dispatched == []


def test_k_runs_at_the_kth_taken_edge():
    run = Driver(diamond("2"))
    assert run.finish("a").dispatched == []
    assert run.finish("b").dispatched == ["j"]
    assert run.finish("c").dispatched == []


def test_k_is_skipped_once_it_cannot_be_reached():
    run = Driver(diamond("2"))
    run.fail("a")
    run.fail("b")
    assert run.statuses()["j"] == "skipped"


def test_cancel_rest_withdraws_what_still_runs_in_the_branches_that_lost():
    run = Driver(diamond("any", ", cancel_rest: true"))
    payload = run.finish("b")
    assert payload.dispatched == ["j"]
    assert sorted(run.withdrawn) == ["a", "c"]
    assert {run.statuses()[ref] for ref in "ac"} == {"cancelled"}
    late = run.success("a")
    assert run.tick(results=[late]).superseded == [late]


def test_cancels_withdraws_other_steps_on_success():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, cancels: [b]}
      - {ref: b, type: task, task: t, next: c}
      - {ref: c, type: task, task: t}
    """)
    run.finish("a")
    assert run.withdrawn == ["b"]
    assert run.statuses() == {"a": "succeeded", "b": "cancelled", "c": "skipped"}
    assert run.state.status == "completed"


def test_a_dead_path_is_followed_to_its_end():
    run = Driver("""
    steps:
      - {ref: a, type: conditional, when: "false", next: {"true": b, "false": x}}
      - {ref: b, type: task, task: t, next: c}
      - {ref: c, type: task, task: t, next: d}
      - {ref: d, type: task, task: t}
      - {ref: x, type: transform, value: 1}
    """)
    assert [run.statuses()[ref] for ref in "bcd"] == ["skipped"] * 3
    assert run.state.status == "completed"


GUARD = """
steps:
  - {ref: a, type: task, task: t, input: "${trigger.missing}", run_if: trigger.go, ON_SKIP next: {success: b, done: c}}
  - {ref: b, type: transform, value: "${steps.a.output}"}
  - {ref: c, type: transform, value: 1}
"""


def test_a_false_guard_skips_the_step_and_not_the_path():
    run = Driver(GUARD.replace("ON_SKIP", ""), {"go": False})
    assert run.statuses() == {"a": "skipped", "b": "succeeded", "c": "succeeded"}
    assert run.state.output == {"b": None, "c": 1}


def test_on_skip_stop_leaves_the_edges_untaken():
    run = Driver(GUARD.replace("ON_SKIP", "on_skip: stop,"), {"go": False})
    assert run.statuses() == {"a": "skipped", "b": "skipped", "c": "skipped"}


def test_a_guard_that_is_no_boolean_fails_the_step():
    run = Driver(GUARD.replace("ON_SKIP", ""), {"go": 3})
    assert run.state.status == "failed"


def reference_answer(join: str | int, outcomes: list[bool | None]) -> bool | None:
    """What the language says, edge by edge: None is an edge that has not settled."""
    taken, open_ = outcomes.count(True), outcomes.count(None)
    if join == "all":
        return None if open_ else taken > 0
    if join == "every":
        return False if False in outcomes else None if open_ else True
    needed = 1 if join == "any" else int(join)
    return True if taken >= needed else None if taken + open_ >= needed else False


@pytest.mark.parametrize("join", ["all", "every", "any", 1, 2, 3, 4])
@pytest.mark.parametrize("sources", [1, 2, 3, 4])
def test_the_join_answers_as_the_language_says_for_every_combination(join, sources):
    if isinstance(join, int) and join > sources:
        return
    for outcomes in itertools.product([True, False, None], repeat=sources):
        settled = sum(outcome is not None for outcome in outcomes)
        taken = outcomes.count(True)
        assert join_answer(join, sources, settled, taken) is reference_answer(join, list(outcomes)), outcomes
