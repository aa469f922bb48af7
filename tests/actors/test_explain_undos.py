"""What is told of a run that undoes what it has done, and of one that has."""

from ductor.actors.explain import lines
from ductor.actors.views import outcome_of, run_view
from ductor.journal.records import Head
from tests.actors.explaining import all_reasons, explained, run_reason, step_reason
from tests.actors.tick.driver import Driver
from tests.actors.tick.test_compensation import SAGA, booked
from tests.actors.tick.test_compensation_children import Parent


def test_a_run_says_which_undo_is_under_way_and_how_many_there_are():
    run = booked()
    run.fail("car", "NoCar")
    assert run_reason(run, "ending").text == "ending as failed (step car failed): undoing hotel (1 of 2)"
    reason = step_reason(run, "hotel.compensate")
    assert reason.text == "attempt 1 of task `cancel_hotel` is in flight, to undo step `hotel`"
    run.fail("hotel.compensate", retryable=False)
    assert run_reason(run, "ending").text == "ending as failed (step car failed): undoing flight (2 of 2, 1 failed)"


def test_an_undo_that_waits_for_its_retry_is_told():
    run = booked()
    run.fail("car")
    run.fail("hotel.compensate")
    assert step_reason(run, "hotel.compensate").kind == "retry"


def test_an_undo_of_a_child_names_the_run_that_it_waits_for():
    parent = Parent()
    parent.fail()
    reason = step_reason(parent.run, "ship.compensate")
    assert reason.kind == "child"
    assert reason.text == f"waits until run {parent.child_id} has undone what it had done, to undo step `ship`"


def test_the_end_says_what_is_undone_and_what_is_not():
    run = booked()
    run.fail("car")
    run.fail("hotel.compensate", retryable=False)
    run.finish("flight.compensate")
    ended = run_reason(run, "ended")
    assert ended.text.endswith("(step car failed); not undone: hotel")
    assert (ended.details["compensated"], ended.details["not_undone"]) == ("partial", ["hotel"])
    run.request("compensate")
    run.finish("hotel.compensate")
    assert run_reason(run, "ended").text.endswith("(step car failed); what it had done was undone")


def test_a_run_of_a_chain_says_that_what_was_done_before_it_stays():
    run = booked()
    run.fail("car")
    run.finish("hotel.compensate")
    run.finish("flight.compensate")
    run.state.chain_run_id = "run-0"
    ended = "what it had done was undone; what the runs before it did is done for good"
    assert run_reason(run, "ended").text.endswith(ended)


def test_a_run_that_undid_nothing_says_nothing_of_it():
    run = Driver(SAGA)
    run.fail("flight")
    assert "undone" not in " ".join(lines(explained(run)))


def test_no_step_is_told_twice_while_undos_run():
    run = booked(SAGA + "defer: [{ref: last, type: task, task: t}]\n")
    run.fail("car")
    told = [reason.ref for reason in all_reasons(explained(run)) if reason.ref and reason.kind != "no_worker"]
    assert len(told) == len(set(told))


def test_a_view_shows_undos_beside_their_steps_and_what_is_left():
    run = booked()
    run.fail("car")
    run.fail("hotel.compensate", "HotelDown", retryable=False)
    head = Head(
        run_id="run-1",
        tenant="t",
        definition="subject",
        manifest_hash="",
        status="running",
        started_at_us=0,
        updated_at_us=0,
    )
    steps = {step.ref: step for step in run_view(head, run.state, run.program.manifest).steps}
    assert {ref: step.undo for ref, step in steps.items()} == {"flight": "running", "hotel": "failed", "car": ""}
    error = steps["hotel"].undo_error
    assert error is not None
    assert (error.type, steps["hotel"].error) == ("HotelDown", None)
    run.finish("flight.compensate")
    view = run_view(head, run.state, run.program.manifest)
    assert (view.compensated, view.not_undone, outcome_of(run.state).compensated) == ("partial", ("hotel",), "partial")


def test_a_completed_run_lists_nothing_as_not_undone():
    run = booked()
    run.finish("car")
    head = Head(
        run_id="run-1",
        tenant="t",
        definition="subject",
        manifest_hash="",
        status="completed",
        started_at_us=0,
        updated_at_us=0,
    )
    assert run_view(head, run.state, run.program.manifest).not_undone == ()
