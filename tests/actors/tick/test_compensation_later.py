"""Undos afterwards: what a redrive does with what was undone, and undoing on request."""

import pytest

from ductor.definitions.values import JsonValue
from ductor.journal.events import (
    DefersStarted,
)
from tests.actors.tick.driver import Driver
from tests.actors.tick.test_compensation import SAGA, booked, undos_dispatched

# --- redrive ----------------------------------------------------------------------------------------------------------


def test_a_redrive_does_what_was_undone_again_and_keeps_what_was_not():
    run = booked()
    run.fail("car")
    run.fail("hotel.compensate", retryable=False)
    run.finish("flight.compensate")
    run.request("redrive", "r-1")
    assert run.statuses()["flight"] == "running"
    run.finish("flight", {"id": "f2"})
    run.finish("hotel", {"id": "h2"})
    run.finish("car")
    assert (run.state.status, run.state.compensated) == ("completed", "")
    assert run.state.undoable == ["flight", "hotel", "car"]


PARALLEL = """
steps:
  - {ref: a, type: task, task: t, compensate: {task: u, input: '${output}'}}
  - {ref: b, type: task, task: t, compensate: {task: u, input: '${output}'}}
  - {ref: c, type: task, task: t, compensate: {task: u}}
"""


def test_a_step_whose_undo_failed_is_kept_by_a_redrive_and_undone_again_if_the_run_fails_again():
    run = Driver(PARALLEL)
    run.finish("a", "a1")
    run.finish("b", "b1")
    run.fail("c")
    run.fail("b.compensate", retryable=False)
    run.finish("a.compensate")
    run.request("redrive", "r-1")
    assert run.statuses() == {
        "a": "running",
        "b": "succeeded",
        "c": "running",
        "a.compensate": "pending",
        "b.compensate": "pending",
    }
    assert run.state.undoable == ["b"]
    run.finish("a", "a2")
    run.fail("c")
    assert run.state.nodes["a.compensate"].input == "a2"
    assert run.state.nodes["a.compensate"].generation == 2
    run.finish("a.compensate")
    assert run.state.nodes["b.compensate"].input == "b1"
    run.finish("b.compensate")
    assert (run.state.status, run.state.compensated) == ("failed", "true")


def test_the_order_of_completion_survives_a_terminate_among_the_undos():
    run = Driver(PARALLEL + "  - {ref: d, type: task, task: t}\n")
    for ref in "abc":
        run.finish(ref)
    run.fail("d")
    run.fail("c.compensate", retryable=False)
    run.request("terminate")
    assert (run.state.undoable, run.state.not_undone) == (["a"], ["c", "b"])
    run.request("redrive", "r-1")
    assert (run.state.undoable, run.state.not_undone) == (["a", "b", "c"], [])


# --- asked for afterwards ---------------------------------------------------------------------------------------------


def undo_rest(run: Driver, **arguments: JsonValue) -> None:
    run.request("compensate", f"u-{run.state.version}", **arguments)


def test_a_completed_run_is_undone_on_request_and_ends_as_cancelled():
    run = booked(SAGA + "defer: [{ref: last, type: task, task: t}]\n")
    run.finish("car")
    run.finish("last")
    undo_rest(run, reason="the guest called")
    assert run.state.status == "running"
    for ref in ("car", "hotel", "flight"):
        run.finish(f"{ref}.compensate")
    assert (run.state.status, run.state.compensated, run.state.output) == ("cancelled", "true", None)
    assert run.state.error is not None
    assert run.state.error.type == "RunCompensated"
    assert run.state.reason == "compensate requested by somebody: the guest called"
    assert sum(isinstance(e, DefersStarted) for e in run.events()) == 1
    undo_rest(run)
    assert run.refusals == ["nothing that the run has done is left to undo"]


def test_what_a_terminate_left_is_undone_on_request_and_the_end_stays_what_it_was():
    run = booked()
    run.request("terminate")
    reason = run.state.reason
    undo_rest(run)
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert (run.state.status, run.state.compensated, run.state.reason) == ("terminated", "true", reason)


def test_an_undo_that_failed_is_tried_again_on_request():
    run = booked()
    run.fail("car", "NoCar")
    run.fail("hotel.compensate", retryable=False)
    run.finish("flight.compensate")
    undo_rest(run)
    assert set(run.in_flight) == {"hotel.compensate"}
    run.finish("hotel.compensate")
    assert (run.state.status, run.state.compensated) == ("failed", "true")
    assert run.state.error is not None
    assert run.state.error.type == "NoCar"
    assert undos_dispatched(run).count("flight.compensate") == 1


@pytest.mark.parametrize(
    ("end", "refusal"),
    [
        (None, "the run has not ended; it undoes what it has done when it is cancelled"),
        ("fail", "nothing that the run has done is left to undo"),
    ],
)
def test_a_request_with_nothing_to_undo_is_refused(end: str | None, refusal: str):
    run = Driver(SAGA)
    if end is not None:
        run.fail("flight")
    undo_rest(run)
    assert run.refusals == [refusal]


def test_a_completed_and_undone_run_is_redriven_from_the_beginning():
    run = booked()
    run.finish("car")
    undo_rest(run)
    for ref in ("car", "hotel", "flight"):
        run.finish(f"{ref}.compensate")
    run.request("redrive", "r-1")
    assert {ref: status for ref, status in run.statuses().items() if "." not in ref} == {
        "flight": "running",
        "hotel": "pending",
        "car": "pending",
    }


# --- children of a scatter, redriven ----------------------------------------------------------------------------------

SCATTER = """
steps:
  - {ref: each, type: scatter, items_expr: '[7, 8, 9]', next: g,
     do: {type: task, task: t, compensate: {task: u, input: '${item}'}}}
  - {ref: g, type: gather, scatter_ref: each, next: z}
  - {ref: z, type: task, task: t}
"""


def test_a_redrive_does_the_children_again_that_were_undone_and_no_other():
    run = Driver(SCATTER)
    for index in range(3):
        run.finish(f"each[{index}]", index)
    run.fail("z")
    run.finish("each[2].compensate")
    run.fail("each[1].compensate", retryable=False)
    run.finish("each[0].compensate")
    assert (run.state.compensated, run.state.not_undone) == ("partial", ["each[1]"])
    run.request("redrive", "r-1")
    assert set(run.in_flight) - {"z"} == {"each[0]", "each[2]"}
    assert (run.statuses()["each[1]"], run.state.undoable) == ("succeeded", ["each[1]"])
    run.finish("each[0]", 10)
    run.finish("each[2]", 12)
    run.finish("z", "end")
    assert run.state.status == "completed"
    assert run.state.undoable == ["each[1]", "each[0]", "each[2]"]
