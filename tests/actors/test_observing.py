"""Observers: several are told what one is told, and who runs no host is told nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ductor.actors.observing import AnswerCommit, Observer, begins, observer_of
from ductor.journal.commit import Appended, CommitAnswer
from ductor.journal.events import AnyEvent, TickLimited
from ductor.journal.state import RunState


class Recorder(Observer):
    def __init__(self, name: str, told: list[str], traceparent: str = "") -> None:
        self._name, self._told, self._traceparent = name, told, traceparent

    def ticked(self, duration_s: float) -> None:
        self._told.append(f"{self._name} ticked {duration_s}")

    def submitting(self, answer: AnswerCommit) -> AnswerCommit:
        def answered(outcome: CommitAnswer) -> None:
            self._told.append(f"{self._name} answered")
            answer(outcome)

        return answered

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        self._told.append(f"{self._name} committed {state.run_id} {len(events)} {has_begun}")

    def conflicted(self, run_id: str) -> None:
        self._told.append(f"{self._name} conflicted {run_id}")

    def batch_written(self, commits: int, duration_s: float) -> None:
        self._told.append(f"{self._name} wrote {commits}")

    def traceparent(self, run_id: str) -> str:
        return self._traceparent

    @contextmanager
    def around_handler(self, traceparent: str) -> Iterator[None]:
        self._told.append(f"{self._name} enters")
        yield
        self._told.append(f"{self._name} leaves")


def test_all_of_several_are_told():
    told: list[str] = []
    both = observer_of([Recorder("a", told), Recorder("b", told, "00-x")])
    assert both is not None
    answers: list[CommitAnswer] = []
    both.ticked(0.5)
    both.submitting(answers.append)(Appended(1))
    both.committed(RunState(run_id="r"), [TickLimited()], has_begun=True)
    both.conflicted("r")
    both.batch_written(3, 0.1)
    with both.around_handler("00-x"):
        told.append("handler")
    assert both.traceparent("r") == "00-x"
    assert answers == [Appended(1)]
    assert told == [
        *("a ticked 0.5", "b ticked 0.5", "b answered", "a answered"),
        *("a committed r 1 True", "b committed r 1 True", "a conflicted r", "b conflicted r", "a wrote 3", "b wrote 3"),
        *("a enters", "b enters", "handler", "b leaves", "a leaves"),
    ]


def test_nobody_is_none_and_one_is_itself():
    one = Observer()
    assert observer_of([]) is None
    assert observer_of([one]) is one


def test_one_that_overrides_nothing_changes_nothing():
    answers: list[CommitAnswer] = []
    Observer().submitting(answers.append)(Appended(1))
    assert answers == [Appended(1)]
    assert Observer().traceparent("r") == ""


@pytest.mark.parametrize(
    ("before", "status", "expected"),
    [("", "running", True), ("pending", "waiting", True), ("", "pending", False), ("running", "waiting", False)],
)
def test_a_run_begins_when_it_leaves_pending(before: str, status: str, expected: bool):
    assert begins(before, status) is expected
