"""Undos: which steps have one, in which order they run, what they see, what stops them, how the run ends."""

import pytest

from ductor.journal.events import (
    AttemptDispatched,
    CompensationsStarted,
    ControlKind,
    DefersStarted,
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
