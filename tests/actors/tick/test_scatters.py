"""Scatters: items and keys, what starts when, when a scatter is done, what becomes of the rest."""

from typing import Any

import pytest

from ductor.actors.steps.scatter import MAX_CHILDREN, MAX_TOLD_CHARACTERS
from ductor.actors.tick.working import MAX_STARTS_PER_TICK
from ductor.definitions.values import JsonValue
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.events import AttemptDispatched, NodeSettled, ScatterStarted, TimerFired
from tests.actors.tick.driver import Driver, settlements


def scatter(fields: str = "", *, do: str = "type: task, task: t", gather: str = "partition") -> str:
    return f"""
    steps:
      - ref: each
        type: scatter
        items_expr: trigger.items
        do: {{{do}}}
        {fields}
        next: all
      - {{ref: all, type: gather, scatter_ref: each, strategy: {gather}}}
    output: ${{steps.all.output}}
    """


def of(items: JsonValue, fields: str = "", **others: str) -> Driver:
    return Driver(scatter(fields, **others), {"items": items})


def output(run: Driver) -> Any:
    """The output of a run that has completed."""
    assert run.state.status == "completed"
    return run.state.output


def started(run: Driver) -> list[str]:
    return [event.node for event in run.events() if isinstance(event, AttemptDispatched)]


# --- items and keys ---------------------------------------------------------------------------------------------------


def test_each_child_sees_its_item_index_and_key():
    run = of(["a", "b"], do='type: task, task: t, input: {item: "${item}", index: "${index}", key: "${key}"}')
    assert run.state.nodes["each[0]"].input == {"item": "a", "index": 0, "key": 0}
    assert run.state.nodes["each[1]"].input == {"item": "b", "index": 1, "key": 1}


def test_a_map_gives_its_values_as_items_and_its_keys_as_keys_in_its_order():
    run = of({"z": 1, "a": 2}, do='type: task, task: t, input: ["${key}", "${item}", "${index}"]')
    assert [run.state.nodes[f"each[{index}]"].input for index in range(2)] == [["z", 1, 0], ["a", 2, 1]]
    run.finish("each[1]", "A")
    run.finish("each[0]", "Z")
    assert run.state.output == {"result": {"z": "Z", "a": "A"}, "error": {}}
    assert list(output(run)["result"]) == ["z", "a"]


def test_a_key_is_made_of_item_index_and_key():
    run = of([{"id": 7}, {"id": "x"}], "key_expr: item.id", do='type: task, task: t, input: "${key}"')
    assert [run.state.nodes[f"each[{index}]"].input for index in range(2)] == ["7", "x"]


@pytest.mark.parametrize(
    ("items", "fields", "type", "says"),
    [
        ([1, 2, 1], "key_expr: item", "DuplicateKey", "items 0 and 2 have the same key '1'"),
        ([1, "1"], "key_expr: item", "DuplicateKey", "items 0 and 1"),
        ([True], "key_expr: item", "InvalidKey", "true is not a text or an integer"),
        ([""], "key_expr: item", "InvalidKey", "between 1 and 255 bytes"),
        (["x" * 256], "key_expr: item", "InvalidKey", f"1 and 255 bytes, not '{'x' * (MAX_TOLD_CHARACTERS - 1)}…'"),
        ([["x" * 999]], "key_expr: item", "InvalidKey", f'["{"x" * (MAX_TOLD_CHARACTERS - 3)}… is not a text'),
        ([{}], "key_expr: item.id", "ExpressionError", "id"),
        ("abc", "", "InvalidItems", 'gives "abc", not a list or a map'),
        (None, "", "InvalidItems", "gives null"),
        ([1, 2, 3], "max_inline_children: 2", "TooManyItems", "3 items; its `max_inline_children` is 2"),
        (list(range(257)), "", "TooManyItems", "257 items"),
    ],
)  # fmt: skip
def test_items_and_keys_that_can_not_be_are_a_clear_failure(items, fields, type, says):
    run = of(items, fields)
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert (run.state.error.type, run.in_flight) == (type, {})
    assert says in run.state.error.message


def test_the_longest_key_is_one():
    run = of(["x" * 255], "key_expr: item", do='type: task, task: t, input: "${key}"')
    assert run.state.nodes["each[0]"].input == "x" * 255


def test_a_bound_that_can_not_be_raised_is_named_without_the_field():
    run = of(list(range(MAX_CHILDREN + 1)), f"max_inline_children: {MAX_CHILDREN}")
    assert run.state.error is not None
    assert run.state.error.message == f"step each: {MAX_CHILDREN + 1} items; a scatter has at most {MAX_CHILDREN}"


def test_child_runs_are_bounded_too():
    run = of(list(range(MAX_CHILDREN + 1)), "mode: child_workflow")
    assert run.state.error is not None
    assert (run.state.error.type, run.state.error.details) == ("TooManyItems", {"items": 10_001, "limit": 10_000})
    assert "max_inline_children" not in run.state.error.message


@pytest.mark.parametrize(("items", "result"), [([], []), ({}, {})])
def test_no_items_are_done_at_once(items, result):
    run = of(items)
    assert (run.state.status, run.state.output) == ("completed", {"result": result, "error": {}})
    assert run.state.nodes["each"].output == {"total": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
    assert run.state.version == 1


def test_large_items_stand_beside_the_journal():
    items: JsonValue = [{"n": number, "text": "x" * 100} for number in range(500)]
    run = of(items, "max_inline_children: 500", do='type: task, task: t, input: "${item.n}"')
    (event,) = [event for event in run.events() if isinstance(event, ScatterStarted)]
    assert event.items_ref is not None
    assert event.items_ref.size_bytes > MAX_INLINE_BYTES
    assert run.state.nodes["each[499]"].input == 499


# --- what starts when -------------------------------------------------------------------------------------------------


def test_children_start_in_order_as_far_as_concurrency_allows():
    run = of([0, 1, 2, 3], "concurrency: 2")
    assert set(run.in_flight) == {"each[0]", "each[1]"}
    run.finish("each[1]")
    assert set(run.in_flight) == {"each[0]", "each[2]"}
    run.tick(results=[run.success("each[0]"), run.success("each[2]")])
    assert set(run.in_flight) == {"each[3]"}
    run.finish("each[3]")
    assert run.state.status == "completed"


def test_a_retry_keeps_its_place():
    run = of([0, 1], "concurrency: 1", do="type: task, task: t, retry: {max_attempts: 2, initial: 1s, jitter: 0}")
    run.fail("each[0]")
    assert (run.statuses(), run.in_flight) == ({"each": "waiting", "each[0]": "waiting"}, {})
    run.advance(1)
    assert set(run.in_flight) == {"each[0]"}
    run.fail("each[0]")
    assert set(run.in_flight) == {"each[1]"}


def test_an_interval_lies_between_two_starts():
    run = of([0, 1, 2], "interval_ms: 500")
    assert started(run) == ["each[0]"]
    run.advance(0.4)
    run.finish("each[0]")
    assert started(run) == ["each[0]"]
    run.advance(0.1)
    assert started(run) == ["each[0]", "each[1]"]
    run.advance(0.5)
    assert started(run) == ["each[0]", "each[1]", "each[2]"]
    assert run.state.timers.earliest() is None
    assert [event.key for event in run.events() if isinstance(event, TimerFired)] == ["each", "each"]


def test_room_that_comes_late_is_used_at_once_and_the_pause_begins_there():
    run = of([0, 1, 2], "{concurrency: 1, interval_ms: 500}".strip("{}").replace(", ", "\n        "))
    run.advance(2)
    run.finish("each[0]")
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]")
    assert run.in_flight == {}
    run.advance(0.5)
    assert set(run.in_flight) == {"each[2]"}


def test_a_pause_of_the_run_moves_the_interval():
    run = of([0, 1], "interval_ms: 500")
    run.advance(0.3)
    run.request("pause", "c-1")
    run.advance(10)
    run.request("resume", "c-2")
    run.advance(0.1)
    assert started(run) == ["each[0]"]
    run.advance(0.1)
    assert started(run) == ["each[0]", "each[1]"]


def test_a_tick_starts_so_many_and_the_next_one_goes_on():
    count = MAX_STARTS_PER_TICK + 10
    run = of(list(range(count)), "max_inline_children: 1000")
    assert len(run.in_flight) == count
    dispatched = [sum(isinstance(event, AttemptDispatched) for event in row) for row in run.rows_of_events()]
    assert len(dispatched) == 2
    assert max(dispatched) <= MAX_STARTS_PER_TICK


def test_a_child_whose_input_can_not_be_made_fails_alone():
    run = of([{"id": 1}, {}, {"id": 3}], do='type: task, task: t, input: "${item.id}"')
    assert set(run.in_flight) == {"each[0]", "each[2]"}
    run.finish("each[0]", "a")
    run.finish("each[2]", "c")
    assert output(run)["result"] == ["a", "c"]
    assert output(run)["error"]["1"]["type"] == "ExpressionError"


def test_all_children_failing_at_once_is_done_in_one_row():
    run = of([{}] * 5, do='type: task, task: t, input: "${item.id}"')
    assert run.state.version == 1
    assert len(output(run)["error"]) == 5


# --- rounds, retries, effects of a child ------------------------------------------------------------------------------


def test_a_child_repeats():
    run = of([1], do="type: task, task: t, repeat: {until: output == item, max: 3}")
    run.finish("each[0]", 0)
    assert run.state.nodes["each[0]"].iteration == 1
    run.finish("each[0]", 1)
    assert output(run)["result"] == [1]


def test_effects_of_children_are_those_of_the_run():
    text = scatter(do='type: task, task: t, effects: {last: "${[item, output]}"}')
    run = Driver("context: {last: null}\n" + "\n".join(line.removeprefix("    ") for line in text.splitlines()),
                 {"items": [1, 2]})  # fmt: skip
    run.finish("each[1]", "b")
    assert run.state.context == {"last": [2, "b"]}


# --- when it is done --------------------------------------------------------------------------------------------------


def test_enough_children_end_the_scatter_and_the_rest_is_withdrawn():
    run = of([0, 1, 2, 3], "complete_when: succeeded >= 2\n        concurrency: 3")
    run.finish("each[2]", "c")
    run.finish("each[0]", "a")
    assert run.withdrawn == ["each[1]", "each[3]"]
    assert run.state.status == "completed"
    assert run.state.output == {"result": ["a", "c"], "error": {}}
    assert run.state.nodes["each"].output == {"total": 4, "succeeded": 2, "failed": 0, "cancelled": 2}


def test_the_output_counts_what_became_of_all():
    run = of([0, 1, 2, 3], "complete_when: succeeded + failed >= 2\n        concurrency: 3")
    run.fail("each[1]")
    run.finish("each[0]")
    assert run.state.nodes["each"].output == {"total": 4, "succeeded": 1, "failed": 1, "cancelled": 2}


def test_enough_is_judged_with_all_results_of_a_tick():
    run = of([0, 1, 2], "complete_when: succeeded >= 1")
    run.tick(results=[run.success("each[0]", "a"), run.success("each[2]", "c")])
    assert output(run)["result"] == ["a", "c"]
    assert run.withdrawn == ["each[1]"]


def test_enough_is_not_asked_before_a_child_has_settled():
    run = of([0, 1], "complete_when: failed == 0")
    assert set(run.in_flight) == {"each[0]", "each[1]"}
    run.finish("each[0]")
    assert run.state.status == "completed"


def test_a_condition_that_fails_fails_the_scatter():
    run = of([0, 1], "complete_when: context.missing > 1")
    run.finish("each[0]")
    assert run.state.error is not None
    assert run.state.error.type == "ExpressionError"
    assert run.statuses()["each[1]"] == "cancelled"


def test_a_late_result_of_a_withdrawn_child_does_not_count():
    run = of([0, 1], "complete_when: succeeded >= 1")
    late = run.success("each[1]")
    run.finish("each[0]")
    assert run.tick(results=[late]).superseded == [late]


def test_a_step_that_cancels_a_scatter_cancels_its_children():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2, 3]", concurrency: 2, do: {type: task, task: t}, next: end}
          - {ref: other, type: task, task: t, cancels: [each], next: end}
          - {ref: end, type: task, task: t, join: any}
        """
    )
    run.finish("each[0]")
    run.finish("other")
    assert run.statuses() == {
        "each": "cancelled", "each[0]": "succeeded", "each[1]": "cancelled", "each[2]": "cancelled",
        "other": "succeeded", "end": "running",
    }  # fmt: skip
    assert run.withdrawn == ["each[1]", "each[2]"]


# --- with the run -----------------------------------------------------------------------------------------------------


def test_a_scatter_is_settled_before_what_comes_with_the_last_result_is_heard():
    run = Driver("""
    on: [{signal: stop, cancels: [each]}]
    steps:
      - {ref: each, type: scatter, items_expr: "[1]", do: {type: task, task: t}, next: after}
      - {ref: after, type: task, task: t}
    """)
    run.tick(results=[run.success("each[0]")], messages=[run.message("signal", "stop")])
    assert run.statuses() == {"each": "succeeded", "each[0]": "succeeded", "after": "running"}


def test_children_have_the_grace_time_when_the_run_is_cancelled():
    run = of([0, 1, 2], "concurrency: 2")
    run.request("cancel")
    assert run.withdrawn == ["each[0]", "each[1]"]
    run.finish("each[0]")
    run.stopped("each[1]")
    assert run.state.status == "cancelled"
    assert run.statuses() == {"each": "cancelled", "each[0]": "succeeded", "each[1]": "cancelled"}


def test_terminate_ends_all_children():
    run = of([0, 1, 2])
    run.request("terminate")
    assert {ref for ref, status in run.statuses().items() if status == "cancelled"} == {
        "each", "each[0]", "each[1]", "each[2]",
    }  # fmt: skip


def test_one_child_is_settled_once_however_often_its_result_comes():
    run = of([0, 1])
    result = run.success("each[0]", "a")
    run.tick(results=[result, result])
    run.tick(results=[result])
    run.finish("each[1]", "b")
    assert len(settlements(run.events(), "each[0]")) == 1
    assert len(settlements(run.events(), "all")) == 1
    assert run.superseded == [result, result]


def test_the_cost_of_a_result_does_not_grow_with_the_number_of_children():
    def row_of_one_result(count: int) -> list[object]:
        run = of(list(range(count)), f"max_inline_children: {max(count, 1)}")
        run.finish("each[3]", {"n": 1})
        return [type(event) for event in run.rows_of_events()[-1]]

    assert row_of_one_result(10) == row_of_one_result(300)
    assert NodeSettled in row_of_one_result(10)


def test_a_vote_for_a_child_is_undelivered():
    run = of([1, 2], do="type: task, task: t, retry: {max_attempts: 2, initial: 5s, jitter: 0}")
    run.fail("each[0]")
    for node in ("each", "each[0]", "each[1]", "each[9]", "each[x]"):
        run.vote(node, "approved", "ann")
    assert set(run.dispositions.values()) == {"undelivered"}


def test_a_scatter_under_way_is_finished_before_its_run_is_continued():
    run = of([1, 2], "concurrency: 1")
    run.request("continue_as_new")
    run.finish("each[0]")
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]")
    assert run.state.status == "continued"
    assert run.statuses() == {"each": "succeeded", "each[0]": "succeeded", "each[1]": "succeeded", "all": "pending"}
