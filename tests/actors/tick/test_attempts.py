"""Retries, repeat, generations, allow-lists."""

import pytest

from ductor.actors.tick.retry import backoff_ms, retry_delay_ms
from ductor.definitions.policies import Retry
from ductor.journal.codec import decode_events
from ductor.journal.events import AttemptDispatched, AttemptFinished, ErrorInfo, NodeParked
from tests.actors.tick.driver import Driver


def retried(policy: str, timeout: str = "") -> str:
    return f"steps: [{{ref: a, type: task, task: t, input: {{n: '${{trigger.n}}'}}, retry: {policy}{timeout}}}]"


def pauses(run: Driver) -> list[float]:
    return [
        (event.until_us - row.at_us) / 1e6
        for row in run.rows
        for event in decode_events(row.events, run_id=row.run_id, version=row.version)
        if isinstance(event, NodeParked) and event.until_us is not None
    ]


def test_backoff_grows_to_its_cap():
    run = Driver(retried("{max_attempts: 5, initial: 1s, factor: 3, max: 10s, jitter: 0}"), {"n": 1})
    for _ in range(4):
        run.fail("a")
        assert run.state.status == "waiting"
        run.advance(60)
    run.fail("a")
    assert pauses(run) == [1, 3, 9, 10]
    assert run.state.status == "failed"
    assert run.state.nodes["a"].generation == 5


def test_a_retry_keeps_the_input_of_the_first_attempt_and_does_not_repeat_it_in_the_journal():
    run = Driver(retried("{max_attempts: 2, initial: 1s}"), {"n": 41})
    run.fail("a")
    run.advance(5)
    assert run.state.nodes["a"].input == {"n": 41}
    assert sum(row.events.count(b'"input"') for row in run.rows) == 1


def test_the_shortest_pause_is_one():
    run = Driver(retried("{max_attempts: 2, initial: 1ms, jitter: 0}"), {"n": 1})
    run.fail("a")
    assert (pauses(run), run.in_flight) == ([0.001], {})
    run = Driver(repeat(every="every: 1ms,"))
    run.finish("a", {"state": "no"})
    assert (pauses(run), run.in_flight) == ([0.001], {})


def test_a_retry_never_comes_early():
    run = Driver(retried("{max_attempts: 2, initial: 10s, jitter: 0}"), {"n": 1})
    run.fail("a")
    assert run.advance(9.999999).events == []
    assert run.advance(0.000001).dispatched == ["a"]


def test_jitter_is_the_same_on_every_replay_and_differs_between_runs():
    policy = Retry(max_attempts=9, initial_ms=1_000, jitter=0.5)
    error = ErrorInfo(type="Boom")

    def delay(run_id: str) -> int | None:
        return retry_delay_ms(
            (policy,), error, attempt=1, elapsed_ms=0, total_ms=None, run_id=run_id, node="a", generation=1
        )

    delays = {delay(f"run-{number}") for number in range(50)}
    assert delay("run-1") == delay("run-1")
    assert len(delays) > 20
    assert all(500 <= (value or 0) <= 1_500 for value in delays)


@pytest.mark.parametrize(("spread", "pause_ms"), [(0.0, 500), (0.5, 1_000), (1.0, 1_500)])
def test_jitter_spreads_a_pause_to_either_side(spread: float, pause_ms: int):
    assert backoff_ms(Retry(initial_ms=1_000, max_ms=60_000, jitter=0.5), 1, spread) == pause_ms


def test_retries_without_a_pause_are_counted_one_by_one():
    run = Driver(retried("{max_attempts: 3, initial: 0s, jitter: 0}"), {"n": 1})
    run.fail("a")
    run.fail("a")
    begun = [(event.attempt, event.iteration) for event in run.events() if isinstance(event, AttemptDispatched)]
    assert begun == [(1, 0), (2, 0), (3, 0)]
    assert pauses(run) == []
    run.fail("a")
    assert run.state.status == "failed"


def test_a_factor_beyond_all_numbers_stays_at_the_cap():
    assert backoff_ms(Retry(factor=1e300, max_ms=60_000, jitter=0), 1_000, 0.5) == 60_000


def test_the_first_policy_that_fits_the_error_is_used():
    slow = "{only: [Slow], max_attempts: 2, initial: 1s, jitter: 0}"
    policies = f"[{slow}, {{except: [Fatal], max_attempts: 3, initial: 5s, jitter: 0}}]"
    run = Driver(retried(policies), {"n": 1})
    run.fail("a", "Slow")
    assert pauses(run) == [1]
    other = Driver(retried(policies), {"n": 1})
    other.fail("a", "Odd")
    assert pauses(other) == [5]
    fatal = Driver(retried(policies), {"n": 1})
    fatal.fail("a", "Fatal")
    assert fatal.state.status == "failed"


def test_an_error_that_is_not_retryable_is_not_retried():
    run = Driver(retried("{max_attempts: 9}"), {"n": 1})
    run.fail("a", retryable=False)
    assert run.state.status == "failed"


def test_retry_after_replaces_the_policys_pause():
    run = Driver(retried("{max_attempts: 2, initial: 1s, jitter: 0}"), {"n": 1})
    run.fail("a", retry_after_ms=90_000)
    assert pauses(run) == [90]


def test_no_retry_is_made_that_could_only_begin_after_the_total_time():
    run = Driver(retried("{max_attempts: 9, initial: 10s, jitter: 0}", ", timeout: {total: 5s}"), {"n": 1})
    run.fail("a", "Slow")
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert run.state.error.type == "Slow"


def test_results_of_older_generations_and_second_results_are_superseded():
    run = Driver(retried("{max_attempts: 3, initial: 1s}"), {"n": 1})
    run.fail("a")
    run.advance(5)
    old = AttemptFinished(node="a", generation=1, outcome="succeeded", output="old")
    assert run.tick(results=[old]).superseded == [old]
    first, second = (
        AttemptFinished(node="a", generation=2, outcome="succeeded", output=word) for word in ("first", "second")
    )
    assert run.tick(results=[first, second]).superseded == [second]
    assert run.state.output == {"a": "first"}


REPEAT = """
context: {seen: 0}
steps:
  - ref: a
    type: task
    task: t
    input: {round: "${context.seen}"}
    retry: {max_attempts: 2, initial: 1s, jitter: 0}
    repeat: {until: "output.state == 'ready'", EVERY max: 3, on_max: ON_MAX}
    effects: {seen: "${iteration}", before: "${previous}"}
"""


def repeat(every: str = "every: 10s,", on_max: str = "fail") -> str:
    return REPEAT.replace("EVERY", every).replace("ON_MAX", on_max)


def test_repeat_goes_round_until_it_holds():
    run = Driver(repeat())
    run.finish("a", {"state": "no"})
    assert (run.state.status, run.state.nodes["a"].waiting) == ("waiting", "repeat")
    run.advance(10)
    run.fail("a")
    run.advance(1)
    run.finish("a", {"state": "ready"})
    assert run.state.status == "completed"
    assert run.state.context == {"seen": 1, "before": {"state": "no"}}
    assert run.state.nodes["a"].generation == 3


def test_attempts_are_counted_anew_in_each_round():
    run = Driver(repeat())
    run.fail("a")
    run.advance(1)
    run.finish("a", {"state": "no"})
    run.advance(10)
    run.fail("a")
    run.advance(1)
    assert run.state.nodes["a"].attempt == 2
    run.fail("a")
    assert run.statuses()["a"] == "failed"


@pytest.mark.parametrize(("on_max", "status"), [("fail", "failed"), ("continue", "completed")])
def test_repeat_ends_at_its_bound(on_max, status):
    run = Driver(repeat(every="", on_max=on_max))
    for _ in range(3):
        run.finish("a", {"state": "no"})
    assert pauses(run) == []
    assert run.state.status == status
    if status == "failed":
        assert run.state.error is not None
        assert run.state.error.type == "RepeatExhausted"


def test_a_task_name_from_an_expression_must_be_on_the_list():
    text = 'steps: [{ref: a, type: task, task: "${trigger.name}", tasks: [one, two]}]'
    node = Driver(text, {"name": "two"}).state.nodes["a"]
    assert (node.task, node.attempt, node.iteration) == ("two", 1, 0)
    refused = Driver(text, {"name": "three"})
    assert refused.state.error is not None
    assert refused.state.error.type == "TaskNotAllowed"


def test_an_input_that_fails_to_evaluate_fails_the_step_before_any_attempt():
    run = Driver("steps: [{ref: a, type: task, task: t, input: {x: '${trigger.nope}'}, retry: {max_attempts: 3}}]", {})
    assert run.state.status == "failed"
    assert run.state.nodes["a"].generation == 0
