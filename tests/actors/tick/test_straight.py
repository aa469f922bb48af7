"""The straight way. That it decides what the phases decide is asserted by the driver, in every tick of every test: it
computes each row again from the folded state, in which so much is still to be looked at that no result goes straight.
"""

import pytest

from ductor.actors.tick import compute as compute_module
from ductor.actors.tick.straight import goes_straight
from ductor.actors.tick.working import MAX_STARTS_PER_TICK, Tick
from ductor.definitions.values import JsonValue
from ductor.journal.events import AttemptDispatched, AttemptFinished, ControlReceived, NodeSettled
from tests.actors.tick.driver import Driver

CHAIN = """
steps:
  - {ref: a, type: task, task: t, next: b}
  - {ref: b, type: task, task: t, input: {n: "${steps.a.output.n}", fixed: [1]}, next: c}
  - {ref: c, type: task, task: t}
"""


@pytest.fixture
def straight(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The nodes whose results went the straight way."""
    seen: list[str] = []

    def noted(tick: Tick, result: AttemptFinished) -> bool:
        has_more_to_look_at = bool(tick.state.touched)
        is_straight = goes_straight(tick, result)
        if is_straight:
            assert not has_more_to_look_at
            seen.append(result.node)
        return is_straight

    monkeypatch.setattr(compute_module, "goes_straight", noted)
    return seen


def test_a_result_leads_straight_to_the_next_task(straight):
    run = Driver(CHAIN)
    run.finish("a", {"n": 7})
    assert straight == ["a"]
    assert [type(event) for event in run.events()][-3:] == [AttemptFinished, NodeSettled, AttemptDispatched]
    assert run.state.nodes["b"].input == {"n": 7, "fixed": [1]}
    run.finish("b")
    run.finish("c")
    assert straight == ["a", "b"]
    assert run.state.status == "completed"


def test_an_input_that_can_not_be_made_fails_the_next_step_and_the_run(straight):
    run = Driver(CHAIN)
    run.finish("a", {})
    assert straight == ["a"]
    assert run.state.nodes["b"].status == "failed"
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"


def test_an_input_that_can_not_be_made_leads_on_where_the_step_may_fail(straight):
    run = Driver(CHAIN.replace("next: c}", "on_error: continue, next: {done: c}}"))
    run.finish("a", {})
    assert run.in_flight == {"c": 1}
    run.finish("c")
    assert run.state.status == "completed"


def test_a_step_that_ran_before_goes_through_the_phases(straight):
    run = Driver(CHAIN)
    run.finish("a", {"n": 1})
    run.fail("b", retryable=False)
    arguments: dict[str, JsonValue] = {"from": ["a"]}
    run.request("redrive", "r-1", **arguments)
    run.finish("a", {"n": 2})
    assert straight == ["a"]
    assert run.state.nodes["b"].input == {"n": 2, "fixed": [1]}


def test_what_comes_with_the_result_is_taken_in_as_well(straight):
    run = Driver(CHAIN)
    signal = run.message("signal", "later")
    run.tick(results=[run.success("a", {"n": 1})], messages=[signal])
    assert (straight, run.disposition(signal.id), set(run.in_flight)) == ([], "buffered", {"b"})
    pause = ControlReceived(request_id="c-1", kind="pause")
    run.tick(results=[run.success("b")], control=pause)
    assert (straight, run.state.status, run.in_flight) == ([], "paused", {})


def test_a_late_result_leads_nowhere(straight):
    run = Driver(CHAIN.replace("next: b}", "retry: {max_attempts: 3, initial: 1s, jitter: 0}, next: b}", 1))
    late = AttemptFinished(node="a", generation=1, outcome="succeeded", output={"n": 1})
    run.fail("a")
    assert run.tick(results=[late]).superseded == [late]
    run.advance(1)
    assert run.tick(results=[late]).superseded == [late]
    assert run.tick(results=[AttemptFinished(node="c", generation=1, outcome="succeeded")]).events == []
    assert (straight, run.statuses()) == ([], {"a": "running"})


@pytest.mark.parametrize("late_us", [0, 1])
def test_a_timer_that_is_due_with_the_result_goes_first(straight, late_us: int):
    run = Driver("timeout: 10s\n" + CHAIN.lstrip())
    run.finish("a", {"n": 1})
    assert straight == ["a"]
    run.now_us += 10_000_000 + late_us
    run.finish("b")
    assert straight == ["a"]
    assert run.state.status == "failed"


@pytest.mark.parametrize(("followers", "rows"), [(MAX_STARTS_PER_TICK - 1, 1), (MAX_STARTS_PER_TICK, 2)])
def test_a_step_that_fails_on_the_straight_way_counts_as_one_that_was_started(straight, followers: int, rows: int):
    refs = [f"s{number}" for number in range(followers)]
    tasks = "".join(f"  - {{ref: {ref}, type: task, task: t}}\n" for ref in refs)
    run = Driver(
        "steps:\n  - {ref: a, type: task, task: t, next: b}\n"
        "  - {ref: b, type: task, task: t, input: '${trigger.missing}', on_error: continue,"
        f" next: {{error: [{', '.join(refs)}]}}}}\n{tasks}",
        {},
    )
    before = len(run.rows)
    run.finish("a")
    assert (straight, len(run.in_flight), len(run.rows)) == (["a"], followers, before + rows)


@pytest.mark.parametrize("kind", ["pause", "cancel", "continue_as_new"])
def test_a_run_that_somebody_has_asked_something_of_goes_through_the_phases(straight, kind):
    run = Driver(CHAIN)
    run.request(kind)
    run.finish("a", {"n": 1})
    assert straight == []
    assert "b" not in run.in_flight
