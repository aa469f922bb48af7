"""Gathers: where results and failures go, in which order, and what a redrive does anew."""

import pytest

from ductor.actors.tick.gathering import CHILD_CANCELLED, output_of
from ductor.definitions.values import JsonValue
from ductor.journal.events import NodeSettled, ScatterStarted
from tests.actors.tick.driver import Driver, settlements
from tests.actors.tick.test_redrives import from_, redrive


def gathering(strategy: str, fields: str = "", items: JsonValue = None) -> Driver:
    return Driver(
        f"""
        steps:
          - ref: each
            type: scatter
            items_expr: trigger
            do: {{type: task, task: t}}
            {fields}
            next: all
          - {{ref: all, type: gather, scatter_ref: each, strategy: {strategy}, next: end}}
          - {{ref: end, type: task, task: t, input: "${{steps.all.output}}"}}
        """,
        ["a", "b", "c"] if items is None else items,
    )


def boom(ref: str) -> JsonValue:
    return {"type": "Boom", "message": f"{ref} failed", "details": None}


@pytest.mark.parametrize(
    ("strategy", "result", "error"),
    [
        ("partition", ["A", "C"], {"1": boom("each[1]")}),
        ("include", ["A", boom("each[1]"), "C"], {}),
        ("drop", ["A", "C"], {}),
    ],
)
def test_a_failure_goes_where_the_strategy_says(strategy, result, error):
    run = gathering(strategy)
    run.finish("each[2]", "C")
    run.fail("each[1]")
    run.finish("each[0]", "A")
    assert run.state.nodes["end"].input == {"result": result, "error": error}


@pytest.mark.parametrize(
    ("strategy", "result", "error"),
    [
        ("partition", {"x": 1}, {"y": boom("each[1]")}),
        ("include", {"x": 1, "y": boom("each[1]")}, {}),
        ("drop", {"x": 1}, {}),
    ],
)
def test_a_map_keeps_its_keys(strategy, result, error):
    run = gathering(strategy, items={"x": 0, "y": 0})
    run.fail("each[1]")
    run.finish("each[0]", 1)
    assert run.state.nodes["end"].input == {"result": result, "error": error}


def test_children_that_were_cancelled_are_left_out_or_take_their_place():
    for strategy, result in (
        ("partition", ["A"]),
        ("drop", ["A"]),
        ("include", ["A", CHILD_CANCELLED, CHILD_CANCELLED]),
    ):
        run = gathering(strategy, "complete_when: succeeded > 0\n            concurrency: 2")
        run.finish("each[0]", "A")
        assert run.state.nodes["end"].input == {"result": result, "error": {}}


def test_the_results_are_written_down_once():
    run = gathering("partition")
    for index in range(3):
        run.finish(f"each[{index}]", f"result {index}")
    (settled,) = settlements(run.events(), "all")
    assert settled == NodeSettled(
        node="all", status="succeeded", outcome="success", taken=("end",), gathers="each", gather_strategy="partition"
    )
    folded = run.folded()
    assert folded.gathered == {}
    expected = {"result": ["result 0", "result 1", "result 2"], "error": {}}
    assert output_of(folded, "all", folded.nodes["all"]) == expected


def test_raise_gives_the_results_where_nothing_failed():
    run = gathering("raise")
    for index in range(3):
        run.finish(f"each[{index}]", index)
    assert run.state.nodes["end"].input == {"result": [0, 1, 2], "error": {}}


def test_raise_stops_at_the_first_failure_and_says_whose_it_was():
    run = gathering("raise", "key_expr: item\n            concurrency: 2")
    run.fail("each[1]", "TooHeavy")
    assert run.withdrawn == ["each[0]"]
    assert run.statuses() == {
        "each": "succeeded", "each[0]": "cancelled", "each[1]": "failed", "all": "failed", "end": "pending",
    }  # fmt: skip
    assert run.state.status == "failed"
    assert run.state.error is not None
    assert (run.state.error.type, run.state.error.message) == ("TooHeavy", "each[1] failed")
    assert run.state.error.details == {"key": "b", "index": 1, "details": None}


def test_a_raised_failure_can_be_dealt_with():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2]", do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each, strategy: raise, on_error: continue, next: {error: mend}}
          - {ref: mend, type: task, task: t, input: "${steps.all.error}"}
        """
    )
    run.fail("each[0]")
    details: JsonValue = {"key": "0", "index": 0, "details": None}
    assert run.state.nodes["mend"].input == {"type": "Boom", "message": "each[0] failed", "details": details}


def test_a_scatter_that_its_guard_skipped_has_nothing_to_gather():
    run = gathering("partition", "run_if: 'false'")
    assert run.state.nodes["end"].input == {"result": [], "error": {}}


def test_a_gather_does_not_run_before_its_scatter_has_settled():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1]", do: {type: task, task: t}, next: all}
          - {ref: other, type: task, task: t, next: all}
          - {ref: all, type: gather, scatter_ref: each, join: any}
        """
    )
    run.finish("other")
    assert run.statuses()["all"] == "failed"
    assert run.state.nodes["all"].error is not None
    assert run.state.nodes["all"].error.type == "ScatterNotSettled"


def test_a_gather_that_failed_after_its_work_gathers_anew_when_it_is_redriven():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2]", do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each, effects: {both: "${output.result[1]}"}}
        """
    )
    run.finish("each[0]", "A")
    run.fail("each[1]")
    assert run.statuses()["all"] == "failed"
    redrive(run, **from_("each"))
    run.finish("each[1]", "B")
    assert (run.state.context, run.state.output) == ({"both": "B"}, {"all": {"result": ["A", "B"], "error": {}}})


def test_two_gathers_shape_the_same_results():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2]", do: {type: task, task: t}, next: [good, whole]}
          - {ref: good, type: gather, scatter_ref: each, strategy: drop}
          - {ref: whole, type: gather, scatter_ref: each, strategy: include}
        """
    )
    run.fail("each[0]")
    run.finish("each[1]", 2)
    assert run.state.output == {
        "good": {"result": [2], "error": {}}, "whole": {"result": [boom("each[0]"), 2], "error": {}},
    }  # fmt: skip


# --- redrive ----------------------------------------------------------------------------------------------------------


def test_a_redrive_of_what_raised_does_only_what_did_not_succeed_anew():
    run = gathering("raise", "concurrency: 2")
    run.finish("each[0]", "A")
    run.fail("each[1]")
    redrive(run)
    assert set(run.in_flight) - {"each[2]"} == {"each[1]"}
    assert run.state.nodes["each[1]"].generation == 2
    run.finish("each[1]", "B")
    run.finish("each[2]", "C")
    assert run.state.nodes["end"].input == {"result": ["A", "B", "C"], "error": {}}
    run.finish("end")
    assert run.state.status == "completed"


def test_a_redrive_of_a_gather_that_failed_although_no_child_had_leaves_the_scatter_alone():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2]", do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each, strategy: raise, effects: {x: "${output.missing}"}}
        """
    )
    run.finish("each[0]")
    run.finish("each[1]")
    assert run.state.status == "failed"
    redrive(run)
    assert len(settlements(run.events(), "each")) == 1
    assert len(settlements(run.events(), "all")) == 2


def test_naming_a_gather_that_raised_does_what_did_not_succeed_anew_though_the_run_went_on():
    run = Driver(
        """
        steps:
          - {ref: each, type: scatter, items_expr: "[1, 2]", concurrency: 1, do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each, strategy: raise, on_error: continue,
             next: {success: good, error: mend}}
          - {ref: mend, type: task, task: t}
          - {ref: good, type: task, task: t, input: "${steps.all.output.result}"}
        """
    )
    run.finish("each[0]", "A")
    run.fail("each[1]")
    run.finish("mend")
    assert run.state.status == "completed"
    redrive(run, **from_("all"))
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]", "B")
    assert run.state.nodes["good"].input == ["A", "B"]


def test_naming_a_gather_that_raises_nothing_gathers_what_is_there():
    run = finished("drop")
    redrive(run, **from_("all"))
    assert set(run.in_flight) == {"end"}
    assert run.state.nodes["end"].input == {"result": ["A", "C"], "error": {}}


@pytest.mark.parametrize(
    "name", ["each[3]", "each[01]", "each[٣]", "each[-1]", "each[]", "all[0]", f"each[{'9' * 5_000}]"]
)
def test_a_name_that_no_child_has_is_refused(name: str):
    run = finished("drop")
    redrive(run, **from_(name))
    assert run.refusals == [f"the definition has no step {name!r} that can be done anew"]
    assert run.state.status == "completed"


def test_a_redrive_of_a_cancelled_run_goes_on_with_the_items_it_had():
    run = gathering("partition", "concurrency: 1\n            interval_ms: 100")
    run.finish("each[0]", "A")
    run.advance(0.1)
    run.request("cancel")
    run.stopped("each[1]")
    assert run.state.status == "cancelled"
    redrive(run)
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]", "B")
    run.advance(0.1)
    run.finish("each[2]", "C")
    assert run.state.nodes["end"].input == {"result": ["A", "B", "C"], "error": {}}


def finished(strategy: str = "partition") -> Driver:
    run = gathering(strategy)
    run.finish("each[0]", "A")
    run.fail("each[1]")
    run.finish("each[2]", "C")
    run.finish("end")
    assert run.state.status == "completed"
    return run


def test_a_named_scatter_keeps_what_succeeded():
    run = finished()
    redrive(run, **from_("each"))
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]", "B")
    assert run.state.nodes["end"].input == {"result": ["A", "B", "C"], "error": {}}


def test_a_named_scatter_that_a_step_led_to_keeps_its_items():
    run = Driver(
        """
        steps:
          - {ref: list, type: task, task: t, next: each}
          - {ref: each, type: scatter, items_expr: steps.list.output, do: {type: task, task: t}, next: all}
          - {ref: all, type: gather, scatter_ref: each}
        """
    )
    run.finish("list", [1, 2])
    run.finish("each[0]", "A")
    run.fail("each[1]")
    redrive(run, **from_("each"))
    assert set(run.in_flight) == {"each[1]"}
    assert sum(isinstance(event, ScatterStarted) and not event.is_resumed for event in run.events()) == 1


def test_one_child_is_done_anew_and_the_others_stay_as_they_are():
    run = finished()
    redrive(run, **from_("each[2]"))
    assert set(run.in_flight) == {"each[2]"}
    run.finish("each[2]", "C2")
    assert run.state.nodes["end"].input == {"result": ["A", "C2"], "error": {"1": boom("each[1]")}}


def test_a_child_and_its_scatter_named_together():
    run = finished()
    redrive(run, **from_("each[0]", "each"))
    assert set(run.in_flight) == {"each[0]", "each[1]"}


def test_one_child_gets_another_input():
    run = finished()
    redrive(run, **from_("each[1]"), input={"now": "this"})
    assert run.state.nodes["each[1]"].input == {"now": "this"}


@pytest.mark.parametrize("name", ["each[3]", "each[x]", "all[0]", "each[0].compensate", "other[0]"])
def test_what_is_no_child_is_refused(name):
    run = finished()
    redrive(run, **from_(name))
    assert run.refusals == [f"the definition has no step {name!r} that can be done anew"]


def test_a_step_before_the_scatter_makes_all_anew():
    run = Driver(
        """
        steps:
          - {ref: list, type: task, task: t, next: each}
          - ref: each
            type: scatter
            items_expr: steps.list.output
            do: {type: task, task: t, input: "${item}"}
            next: all
          - {ref: all, type: gather, scatter_ref: each}
        """
    )
    run.finish("list", [1, 2])
    run.finish("each[0]")
    run.finish("each[1]")
    redrive(run, **from_("list"))
    run.finish("list", [5, 6, 7])
    assert [run.state.nodes[f"each[{index}]"].input for index in range(3)] == [5, 6, 7]
    assert [run.state.nodes[f"each[{index}]"].generation for index in range(3)] == [2, 2, 1]


def test_a_second_redrive_before_the_first_got_there_keeps_the_children():
    run = finished()
    redrive(run, **from_("each"))
    run.request("terminate")
    redrive(run)
    assert set(run.in_flight) == {"each[1]"}
    run.finish("each[1]", "B")
    assert run.state.nodes["end"].input == {"result": ["A", "B", "C"], "error": {}}
