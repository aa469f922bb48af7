"""Undos: which steps have one, in which order they run, what they see, what stops them, how the run ends."""

import pytest

from ductor.definitions.values import JsonValue
from ductor.journal.events import (
    AttemptDispatched,
    CompensationsStarted,
    ControlKind,
    DefersStarted,
    NodeSettled,
    RunEnded,
    TickLimited,
)
from tests.actors.tick.driver import Driver

SAGA = """
context: {city: Oslo}
steps:
  - {ref: flight, type: task, task: book_flight, effects: {city: Rome}, next: hotel,
     compensate: {task: cancel_flight, input: {id: '${output.id}', city: '${context.city}'}}}
  - {ref: hotel, type: task, task: book_hotel, next: car,
     compensate: {task: cancel_hotel, input: {id: '${output.id}', why: '${run.error.type}', how: '${run.status}'},
                  retry: {max_attempts: 3, initial: 10s, jitter: 0}}}
  - {ref: car, type: task, task: book_car, compensate: {task: cancel_car}}
"""


def booked(text: str = SAGA) -> Driver:
    """Flight and hotel are booked, the car is being booked."""
    run = Driver(text)
    run.finish("flight", {"id": "f1"})
    run.finish("hotel", {"id": "h1"})
    return run


def undos_dispatched(run: Driver) -> list[str]:
    """The undos that were begun, each attempt once, in order."""
    return [e.node for e in run.events() if isinstance(e, AttemptDispatched) and e.node.endswith(".compensate")]


def test_undos_run_in_reverse_order_one_after_another_and_not_that_of_the_failed_step():
    run = booked()
    run.fail("car", "NoCar")
    assert run.state.closing is not None
    assert set(run.in_flight) == {"hotel.compensate"}
    run.finish("hotel.compensate")
    assert set(run.in_flight) == {"flight.compensate"}
    run.finish("flight.compensate")
    assert (run.state.status, run.state.compensated) == ("failed", "true")
    assert run.state.error is not None
    assert run.state.error.type == "NoCar"
    assert undos_dispatched(run) == ["hotel.compensate", "flight.compensate"]
    assert (run.state.undoable, run.state.not_undone) == ([], [])


def test_an_undo_sees_what_its_step_gave_and_the_run_as_it_is_when_it_begins():
    run = booked()
    run.fail("car", "NoCar")
    assert run.state.nodes["hotel.compensate"].input == {"id": "h1", "why": "NoCar", "how": "failed"}
    run.finish("hotel.compensate")
    assert run.state.nodes["flight.compensate"].input == {"id": "f1", "city": "Rome"}


def test_the_order_is_that_of_completion_not_that_of_the_definition():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, compensate: {task: u}}
      - {ref: b, type: task, task: t, compensate: {task: u}}
      - {ref: c, type: task, task: t, compensate: {task: u}}
      - {ref: d, type: task, task: t}
    """)
    for ref in "bca":
        run.finish(ref)
    run.fail("d")
    for ref in "acb":
        run.finish(f"{ref}.compensate")
    assert undos_dispatched(run) == ["a.compensate", "c.compensate", "b.compensate"]
    assert run.state.status == "failed"


def test_several_results_of_one_tick_are_undone_latest_first():
    run = Driver("""
    steps:
      - {ref: a, type: task, task: t, compensate: {task: u}}
      - {ref: b, type: task, task: t, compensate: {task: u}}
      - {ref: c, type: task, task: t}
    """)
    run.tick(results=[run.success("b"), run.success("a")])
    run.fail("c")
    assert set(run.in_flight) == {"a.compensate"}


@pytest.mark.parametrize(
    ("kind", "status", "error"), [("cancel", "cancelled", "RunCancelled"), ("timeout", "failed", "RunTimeout")]
)
def test_a_cancel_and_a_timeout_undo_too(kind: str, status: str, error: str):
    run = booked("timeout: 1h\n" + SAGA.lstrip())
    if kind == "cancel":
        run.request("cancel")
    else:
        run.advance(3600)
    run.stopped("car")
    assert run.state.nodes["hotel.compensate"].input == {"id": "h1", "why": error, "how": status}
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert (run.state.status, run.state.compensated) == (status, "true")


def test_what_finishes_within_the_grace_time_is_undone_first():
    run = booked()
    run.request("cancel")
    assert undos_dispatched(run) == []
    run.finish("car")
    assert set(run.in_flight) == {"car.compensate"}


def test_what_does_not_stop_within_the_grace_time_is_not_undone():
    run = booked()
    run.request("cancel")
    run.advance(10)
    assert set(run.in_flight) == {"car", "hotel.compensate"}
    late = run.success("car")
    assert run.tick(results=[late]).superseded == [late]


def test_a_run_that_completes_undoes_nothing_and_remembers_what_could_be_undone():
    run = booked()
    run.finish("car")
    assert (run.state.status, run.state.compensated) == ("completed", "")
    assert undos_dispatched(run) == []
    assert run.state.undoable == ["flight", "hotel", "car"]


def test_terminate_undoes_nothing():
    run = booked()
    run.request("terminate")
    assert (run.state.status, run.state.compensated) == ("terminated", "")
    assert undos_dispatched(run) == []


# --- which steps ------------------------------------------------------------------------------------------------------

ONE = (
    "steps:\n  - {{ref: a, type: task, task: t, compensate: {{task: u}}, {more}}}\n  - {{ref: z, type: task, task: t}}"
)


@pytest.mark.parametrize(
    "more",
    [
        "effects: {x: '${output.missing}'}",
        "next: {choice: [{when: output.missing, to: b}, {to: b}]}",
        "emit: [{event: e, payload: '${output.missing}'}]",
        "repeat: {until: output.missing}",
        "repeat: {until: 'false', max: 1}",
    ],
)
def test_a_step_that_failed_after_its_work_was_done_is_undone(more: str):
    text = ONE.format(more=more)
    if "next" in more:
        text += "\n  - {ref: b, type: task, task: t}"
    run = Driver(text)
    run.finish("a", {})
    assert run.statuses()["a"] == "failed"
    run.stopped("z")
    assert set(run.in_flight) == {"a.compensate"}


def test_a_failure_that_the_run_survived_has_nothing_to_undo():
    run = Driver(ONE.format(more="on_error: continue"))
    run.fail("a")
    run.fail("z")
    assert (run.state.status, undos_dispatched(run), run.state.compensated) == ("failed", [], "")


def test_skipped_cancelled_and_timed_out_steps_have_nothing_to_undo():
    run = Driver("""
    steps:
      - {ref: skipped, type: task, task: t, run_if: 'false', compensate: {task: u}}
      - {ref: withdrawn, type: task, task: t, compensate: {task: u}}
      - {ref: late, type: wait, signal: go, timeout: 1s, compensate: {task: u}, next: {timeout: f}}
      - {ref: c, type: transform, value: 1, cancels: [withdrawn], compensate: {task: u}}
      - {ref: f, type: task, task: t}
    """)
    run.advance(1)
    run.fail("f")
    assert run.state.closing is not None
    assert set(run.in_flight) == {"withdrawn", "c.compensate"}
    run.finish("c.compensate")
    assert (run.state.status, undos_dispatched(run)) == ("failed", ["c.compensate"])


def test_a_step_of_several_rounds_is_undone_once():
    run = Driver(
        ONE.format(more="repeat: {until: 'iteration == 2'}").replace("task: u", "task: u, input: '${iteration}'")
    )
    for _ in range(3):
        run.finish("a")
    run.fail("z")
    assert run.state.nodes["a.compensate"].input == 2
    run.finish("a.compensate")
    assert undos_dispatched(run) == ["a.compensate"]


def test_children_of_a_scatter_are_undone_each_with_its_item():
    run = Driver("""
    steps:
      - {ref: each, type: scatter, items_expr: '[7, 8]', next: g,
         do: {type: task, task: t, compensate: {task: u, input: {item: '${item}', out: '${output}'}}}}
      - {ref: g, type: gather, scatter_ref: each, next: z}
      - {ref: z, type: task, task: t}
    """)
    run.finish("each[1]", "second")
    run.finish("each[0]", "first")
    run.fail("z")
    assert run.state.nodes["each[0].compensate"].input == {"item": 7, "out": "first"}
    run.finish("each[0].compensate")
    assert run.state.nodes["each[1].compensate"].input == {"item": 8, "out": "second"}
    run.finish("each[1].compensate")
    assert (run.state.status, run.state.compensated) == ("failed", "true")


# --- failing undos ----------------------------------------------------------------------------------------------------


def test_an_undo_is_tried_again_by_its_own_policy():
    run = booked()
    run.fail("car")
    run.fail("hotel.compensate")
    assert (run.statuses()["hotel.compensate"], run.state.status) == ("waiting", "waiting")
    run.advance(10)
    run.fail("hotel.compensate")
    run.advance(20)
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert run.state.compensated == "true"
    assert undos_dispatched(run).count("hotel.compensate") == 3
    generations = [
        e.generation for e in run.events() if isinstance(e, AttemptDispatched) and e.node == "hotel.compensate"
    ]
    assert generations == [1, 2, 3]


def test_a_failing_undo_stops_no_other_and_the_run_ends_compensated_in_part():
    run = booked()
    run.fail("car", "NoCar")
    run.fail("hotel.compensate", "HotelDown", retryable=False)
    run.finish("flight.compensate")
    assert (run.state.status, run.state.compensated, run.state.not_undone) == ("failed", "partial", ["hotel"])
    assert run.state.error is not None
    assert run.state.error.type == "NoCar"


def test_an_input_that_does_not_evaluate_fails_this_undo_alone():
    run = Driver(SAGA)
    run.finish("flight", {"id": "f1"})
    run.finish("hotel", {})
    run.fail("car")
    hotel = run.state.nodes["hotel.compensate"]
    assert hotel.status == "failed"
    assert hotel.error is not None
    assert hotel.error.type == "ExpressionError"
    run.finish("flight.compensate")
    assert (run.state.compensated, run.state.not_undone) == ("partial", ["hotel"])


def test_a_handler_that_stops_unasked_fails_its_undo():
    run = booked()
    run.fail("car")
    run.stopped("hotel.compensate")
    assert run.statuses()["hotel.compensate"] == "waiting"


def test_many_undos_that_fail_at_once_take_several_ticks():
    run = Driver("""
    steps:
      - {ref: each, type: scatter, items_expr: 'range(0, 600)', max_inline_children: 1000, next: g,
         do: {type: task, task: t, compensate: {task: u, input: '${output.missing}'}}}
      - {ref: g, type: gather, scatter_ref: each, next: z}
      - {ref: z, type: task, task: t}
    """)
    run.tick(results=[run.success(f"each[{index}]", {}) for index in range(600)])
    rows = len(run.rows)
    run.fail("z")
    limited = [events for events in run.rows_of_events()[rows:] if isinstance(events[-1], TickLimited)]
    assert len(limited) == 2
    assert (run.state.status, run.state.compensated, len(run.state.not_undone)) == ("failed", "partial", 600)


# --- what is protected from what --------------------------------------------------------------------------------------


def test_a_cancel_does_not_stop_undos_and_says_so():
    run = booked()
    run.fail("car")
    run.request("cancel", "c-2")
    assert run.refusals == ["the run is ending as failed, and a cancel does not stop its undos"]
    assert run.withdrawn == []
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert run.state.compensated == "true"


def test_terminate_ends_undos_at_once_and_tells_what_is_not_undone():
    run = booked()
    run.fail("car")
    run.request("terminate")
    assert (run.state.status, run.state.compensated) == ("terminated", "partial")
    assert (run.state.undoable, run.state.not_undone) == (["flight"], ["hotel"])
    assert run.withdrawn == ["hotel.compensate"]


def test_a_pause_keeps_the_next_undo_from_beginning():
    run = booked()
    run.fail("car")
    run.request("pause")
    run.finish("hotel.compensate")
    assert run.state.status == "paused"
    assert undos_dispatched(run) == ["hotel.compensate"]
    run.request("resume", "c-2")
    assert set(run.in_flight) == {"flight.compensate"}


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_paused_run_that_undoes_is_protected_from_a_cancel_alone(kind: ControlKind):
    run = booked()
    run.fail("car")
    run.request("pause")
    run.request(kind, "c-2")
    assert run.state.status == ("paused" if kind == "cancel" else "terminated")


def test_a_second_failure_while_undoing_changes_nothing():
    run = booked("timeout: 1h\n" + SAGA.lstrip())
    run.fail("car", "NoCar")
    run.advance(7200)
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert run.state.error is not None
    assert run.state.error.type == "NoCar"


def test_deferred_steps_run_after_all_undos():
    run = booked(SAGA + "defer: [{ref: last, type: task, task: t, input: '${run.status}'}]\n")
    run.fail("car")
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    assert set(run.in_flight) == {"last"}
    run.finish("last")
    kinds = [type(e) for e in run.events() if isinstance(e, CompensationsStarted | DefersStarted | RunEnded)]
    assert kinds == [CompensationsStarted, DefersStarted, RunEnded]
    assert run.state.compensated == "true"


def test_a_deferred_step_is_never_undone():
    run = booked(SAGA + "defer: [{ref: last, type: task, task: t, compensate: {task: u}}]\n")
    run.fail("car")
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    run.finish("last")
    assert run.state.undoable == []
    assert not any(isinstance(e, NodeSettled) and e.node == "last" and e.is_undoable for e in run.events())


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
