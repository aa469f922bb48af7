"""`compensate: {child: true}`: a parent asks its child to undo itself, and waits for the outcome."""

import msgspec
import pytest

from ductor.journal.child_reports import ChildReport, report_message, report_of
from ductor.journal.commit import SentControl, SentMessage
from ductor.journal.events import CompensationRequested, ControlReceived, ErrorInfo, Message, RunEnded
from tests.actors.tick.driver import Driver

PARENT_ID = "0198f5d2-0000-7000-8000-000000000001"
PARENT = """
steps:
  - {ref: ship, type: subworkflow, compensate: {child: true}, next: z,
     do: {steps: [{ref: book, type: task, task: t, compensate: {task: u}}]}}
  - {ref: z, type: task, task: t}
"""
CHILD = """
steps:
  - {ref: book, type: task, task: t, compensate: {task: u}, next: pack}
  - {ref: pack, type: task, task: t}
"""


class Parent:
    """A run whose child has completed."""

    def __init__(self, text: str = PARENT) -> None:
        self.run = Driver(text, {}, run_id=PARENT_ID)
        self.child_id = self.run.state.nodes["ship"].child_run_id
        self.controls: list[SentControl] = []
        self._reports = 0
        self._tell(report_message(ChildReport(run_id=self.child_id, status="completed", generation=1), "ship"))

    def fail(self) -> None:
        """The step after the child fails."""
        result = self.run.fail("z")
        assert result.outbox is not None
        self.controls = [control for control in result.outbox.controls if control.kind == "compensate"]

    def report(self, compensated: str = "true", *, epoch: int = 0) -> None:
        """The child says that it has undone itself."""
        report = ChildReport(
            run_id=self.child_id,
            status="cancelled",
            generation=epoch,
            compensated=compensated,  # type: ignore[arg-type]
        )
        self._reports += 1  # the store keeps one message of an id; here each counts as another one
        message_id = f"child:{self.child_id}:compensated:{epoch}:{self._reports}"
        self._tell(msgspec.structs.replace(report_message(report, "ship.compensate"), id=message_id))

    def _tell(self, message: Message) -> None:
        self.run.tick(messages=[message])


def child(text: str = CHILD) -> Driver:
    """The child, started by the parent's step."""
    run = Driver(text, run_id="0198f5d2-0000-7000-8000-000000000002", starts=False)
    run.started = msgspec.structs.replace(
        run.started, parent_run_id=PARENT_ID, parent_node="ship", parent_generation=1, parent_waits_for="terminal"
    )
    run.tick(started=run.started)
    return run


def completed_child() -> Driver:
    run = child()
    run.finish("book")
    run.finish("pack")
    assert run.state.status == "completed"
    return run


def ask(run: Driver, epoch: int = 0) -> None:
    """The parent's request arrives."""
    report_id = f"child:{run.state.run_id}:compensated:{epoch}"
    arguments = {"report_to": "ship.compensate", "report_id": report_id}
    request = ControlReceived(request_id=f"undo:{epoch}", kind="compensate", by="run", arguments=dict(arguments))
    run.tick(control=request)


def reports(run: Driver) -> list[tuple[str, str]]:
    """What the child has told of its undos: to whom, and the outcome."""
    told: list[SentMessage] = [sent for sent in run.sent if ":compensated:" in sent.message.id]
    assert all(sent.run_id == PARENT_ID for sent in told)
    return [(sent.message.node, report_of(sent.message).compensated) for sent in told]


# --- the parent -------------------------------------------------------------------------------------------------------


def test_a_parent_asks_its_child_and_waits_for_the_outcome():
    parent = Parent()
    parent.fail()
    (control,) = parent.controls
    assert (control.run_id, control.request_id) == (parent.child_id, f"undo:{PARENT_ID}:ship.compensate:0")
    assert control.arguments == {
        "report_to": "ship.compensate",
        "report_id": f"child:{parent.child_id}:compensated:0",
    }
    undo = parent.run.state.nodes["ship.compensate"]
    assert (undo.status, undo.waiting, parent.run.state.status) == ("waiting", "child", "waiting")
    parent.report()
    assert (parent.run.state.status, parent.run.state.compensated) == ("failed", "true")


def test_a_child_that_could_undo_only_a_part_makes_it_a_part_of_the_parent():
    parent = Parent()
    parent.fail()
    parent.report("partial")
    assert (parent.run.state.status, parent.run.state.compensated) == ("failed", "partial")
    error = parent.run.state.nodes["ship.compensate"].error
    assert error is not None
    assert error.type == "CompensationIncomplete"
    assert parent.run.state.not_undone == ["ship"]


@pytest.mark.parametrize("until", ["'false'", "output.missing"])
def test_a_child_whose_rounds_are_over_without_success_is_undone(until: str):
    text = PARENT.replace("next: z,", f"repeat: {{until: {until}, max: 1}}, next: z,")
    run = Driver(text, {}, run_id=PARENT_ID)
    run.report("ship", output={})
    assert run.statuses()["ship"] == "failed"
    assert run.state.nodes["ship.compensate"].waiting == "child"
    assert [control.kind for control in run.asked] == ["compensate"]


def test_a_report_that_comes_twice_counts_once():
    parent = Parent(PARENT + "defer: [{ref: last, type: task, task: t}]\n")
    parent.fail()
    parent.report()
    parent.report("partial")
    assert parent.run.state.nodes["ship.compensate"].status == "succeeded"
    assert set(parent.run.in_flight) == {"last"}


def test_a_report_of_an_earlier_life_of_the_run_does_not_count():
    parent = Parent()
    parent.fail()
    parent.report("partial")
    parent.run.request("compensate", "again")
    assert parent.run.state.nodes["ship.compensate"].status == "waiting"
    parent.report("true", epoch=0)
    assert parent.run.state.nodes["ship.compensate"].status == "waiting"
    parent.report("true", epoch=1)
    assert (parent.run.state.status, parent.run.state.compensated) == ("failed", "true")


def test_a_parent_that_waits_for_the_undo_can_be_paused_and_terminated():
    parent = Parent()
    parent.fail()
    parent.run.request("pause", "c-1")
    parent.run.request("resume", "c-2")
    assert parent.run.state.nodes["ship.compensate"].status == "waiting"
    parent.run.request("terminate", "c-3")
    assert (parent.run.state.status, parent.run.state.compensated) == ("terminated", "partial")


def test_a_redrive_starts_an_undone_child_anew():
    parent = Parent()
    parent.fail()
    parent.report()
    parent.run.request("redrive", "r-1")
    ship = parent.run.state.nodes["ship"]
    assert (ship.status, ship.generation) == ("waiting", 2)
    assert ship.child_run_id != parent.child_id


# --- the child --------------------------------------------------------------------------------------------------------


def test_a_completed_child_undoes_itself_and_reports():
    run = completed_child()
    ask(run)
    assert run.state.status == "running"
    assert reports(run) == []
    run.finish("book.compensate")
    assert (run.state.status, run.state.compensated) == ("cancelled", "true")
    assert reports(run) == [("ship.compensate", "true")]
    assert run.statuses()["pack"] == "succeeded"


def test_a_child_reports_what_it_could_not_undo():
    run = completed_child()
    ask(run)
    run.fail("book.compensate", retryable=False)
    assert reports(run) == [("ship.compensate", "partial")]


def test_a_child_that_is_terminated_among_its_undos_reports_too():
    run = completed_child()
    ask(run)
    run.request("terminate")
    assert reports(run) == [("ship.compensate", "partial")]


@pytest.mark.parametrize(("outcome", "compensated"), [("fail", "true"), ("nothing", "")])
def test_a_child_that_has_nothing_left_to_undo_reports_at_once(outcome: str, compensated: str):
    run = child()
    if outcome == "fail":
        run.finish("book")
        run.fail("pack")
        run.finish("book.compensate")
    else:
        run.fail("book")
    ask(run)
    assert (run.state.status, reports(run)) == ("failed", [("ship.compensate", compensated)])


def test_a_child_that_an_operator_undoes_reports_to_a_parent_that_asks_meanwhile():
    run = completed_child()
    run.request("compensate")
    ask(run)
    assert run.refusals == []
    run.finish("book.compensate")
    assert reports(run) == [("ship.compensate", "true")]


def test_a_child_that_is_under_way_is_cancelled_undone_and_then_reports():
    run = child()
    run.finish("book")
    run.request("pause")
    ask(run)
    assert run.withdrawn == ["pack"]
    run.stopped("pack")
    run.finish("book.compensate")
    assert (run.state.status, run.state.compensated) == ("cancelled", "true")
    assert reports(run) == [("ship.compensate", "true")]


def test_a_child_that_ends_at_once_when_it_is_asked_reports():
    run = child("steps: [{ref: w, type: wait, signal: go}]")
    ask(run)
    assert (run.state.status, reports(run)) == ("cancelled", [("ship.compensate", "")])


def test_each_request_gets_one_report_and_a_later_end_none():
    run = completed_child()
    ask(run)
    run.finish("book.compensate")
    ask(run, epoch=1)
    assert reports(run) == [("ship.compensate", "true")] * 2
    run.request("redrive", "r-1")
    run.finish("book")
    run.finish("pack")
    assert len(reports(run)) == 2
    assert sum(isinstance(event, CompensationRequested) for event in run.events()) == 1
    assert sum(isinstance(event, RunEnded) for event in run.events()) == 3


def test_the_child_says_why_it_was_undone():
    run = completed_child()
    ask(run)
    run.finish("book.compensate")
    message = "its parent undoes the step that started it"
    assert run.state.error == ErrorInfo(type="RunCompensated", message=message, retryable=False)
