"""Decision tables, and the bounds of one tick."""

import pytest

from ductor.actors.tick.compute import TickInputs, compute
from ductor.actors.tick.working import MAX_CONTEXT_VALUE_BYTES, MAX_STARTS_PER_TICK
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.events import TickLimited
from ductor.journal.fold import apply_event, begin_row, finish_row
from tests.actors.tick.driver import Driver

TABLE = """
steps:
  - ref: a
    type: rule
    hit: HIT
    rules:
      - {when: trigger.n > 10, then: {size: big, n: "${trigger.n}"}}
      - {when: trigger.n > 5, then: {size: middle, seen: true}}
      - {when: trigger.n > 1, then: {size: small}}
    DEFAULT
"""


def table(hit: str, default: str = "") -> str:
    return TABLE.replace("HIT", hit).replace("DEFAULT", default)


@pytest.mark.parametrize(
    ("hit", "n", "output"),
    [
        ("first", 7, {"size": "middle", "seen": True}),
        ("all", 7, [{"size": "middle", "seen": True}, {"size": "small"}]),
        ("collect", 11, {"size": "small", "n": 11, "seen": True}),
        ("unique", 2, {"size": "small"}),
        ("all", 0, []),
        ("collect", 0, {}),
    ],
)
def test_a_table_answers_by_its_hit_policy(hit, n, output):
    assert Driver(table(hit), {"n": n}).state.output == {"a": output}


@pytest.mark.parametrize(
    ("hit", "n", "error", "message"),
    [
        ("unique", 7, "RuleNotUnique", "step a: rows 2, 3 hold at once and `hit` is `unique`"),
        ("first", 0, "NoRuleMatched", "step a: no row holds and there is no `default`"),
        ("unique", 0, "NoRuleMatched", "step a: no row holds and there is no `default`"),
    ],
)
def test_a_table_without_an_answer_fails(hit, n, error, message):
    run = Driver(table(hit), {"n": n})
    assert run.state.error is not None
    assert (run.state.error.type, run.state.error.message) == (error, message)


def test_rows_after_the_first_that_holds_are_not_asked():
    rules = "[{when: trigger.n > 1, then: small}, {when: trigger.missing > 1, then: never}]"
    text = f"steps: [{{ref: a, type: rule, hit: HIT, rules: {rules}}}]"
    assert Driver(text.replace("HIT", "first"), {"n": 2}).state.output == {"a": "small"}
    assert Driver(text.replace("HIT", "all"), {"n": 2}).state.status == "failed"


def test_the_default_answers_when_no_row_holds():
    assert Driver(table("first", "default: {size: none}"), {"n": 0}).state.output == {"a": {"size": "none"}}


def test_a_tick_starts_so_many_steps_at_most_and_the_next_goes_on():
    count = 2 * MAX_STARTS_PER_TICK + 10
    steps = "\n".join(f"  - {{ref: s{number}, type: task, task: t}}" for number in range(count))
    run = Driver(f"steps:\n{steps}")
    limited = [event for event in run.events() if isinstance(event, TickLimited)]
    assert len(run.rows) == 3
    assert len(limited) == 2
    assert len(run.in_flight) == count
    assert run.state.status == "running"


@pytest.mark.parametrize("more", [0, 1])
def test_a_row_is_limited_only_where_something_is_left_to_start(more: int):
    """Also for a host that has loaded the run, and has more steps to look at than one that held it."""
    refs = [f"s{number}" for number in range(MAX_STARTS_PER_TICK + more)]
    steps = "\n".join(f"  - {{ref: {ref}, type: task, task: t}}" for ref in refs)
    run = Driver(
        f"steps:\n  - {{ref: a, type: task, task: t, next: [{', '.join(refs)}]}}\n{steps}\n"
        "  - {ref: z, type: task, task: t}"
    )
    run.finish("a")
    assert sum(isinstance(event, TickLimited) for event in run.events()) == more
    assert len(run.in_flight) == len(refs) + 1


def test_a_limited_row_leaves_the_run_running_so_that_a_restarted_host_finds_it():
    count = MAX_STARTS_PER_TICK + 1
    steps = "\n".join(f"  - {{ref: s{number}, type: transform, value: 1}}" for number in range(count))
    run = Driver(f"steps:\n{steps}")
    assert run.state.status == "completed"
    assert [row.events.count(b"node_settled") for row in run.rows] == [MAX_STARTS_PER_TICK, 1]


def test_a_run_started_elsewhere_begins_with_its_first_tick():
    run = Driver("steps: [{ref: a, type: task, task: t}]", starts=False)
    begin_row(run.state, 1, run.now_us)
    apply_event(run.state, run.started)
    apply_event(run.state, TickLimited())
    finish_row(run.state, b"")
    assert run.state.status == "pending"
    assert compute(run.program, run.state, TickInputs(), run.now_us).dispatched == ["a"]


def test_a_run_started_elsewhere_hears_events_from_its_first_tick_on():
    run = Driver("on: [{event: paid, effects: {x: 1}}]\nsteps: [{ref: a, type: task, task: t}]", starts=False)
    begin_row(run.state, 1, run.now_us)
    apply_event(run.state, run.started)
    finish_row(run.state, b"")
    outbox = compute(run.program, run.state, TickInputs(), run.now_us).outbox
    assert outbox is not None
    assert [wait.name for wait in outbox.waits.values()] == ["paid"]
    assert compute(run.program, run.state, TickInputs(), run.now_us).outbox is None


def test_a_run_that_has_not_begun_does_nothing():
    run = Driver("steps: [{ref: a, type: task, task: t}]", starts=False)
    assert run.tick().events == []


def test_large_values_stand_beside_the_journal():
    run = Driver(
        """
        steps:
          - {ref: a, type: transform, value: "${trigger}", next: b}
          - {ref: b, type: task, task: t, input: "${steps.a.output}"}
        """,
        "x" * (MAX_INLINE_BYTES + 1),
    )
    node = run.state.nodes["b"]
    assert node.input_ref is not None
    assert run.state.value(node.input, node.input_ref) == "x" * (MAX_INLINE_BYTES + 1)
    # the trigger was handed in inline by this test; what the tick made of it was not
    assert max(len(row.events) for row in run.rows) < 2 * MAX_INLINE_BYTES


def test_a_context_value_beyond_its_bound_fails_the_step():
    text = "steps: [{ref: a, type: transform, value: 1, effects: {x: '${trigger}'}}]"
    largest = "x" * (MAX_CONTEXT_VALUE_BYTES - 2)  # two quotes
    assert Driver(text, largest).state.context == {"x": largest}
    run = Driver(text, largest + "x")
    assert run.state.error is not None
    assert run.state.error.type == "ValueRefused"
