"""What a host tells those who watch it: metrics, traces. Rooms know this class and no library of theirs.

Everything about a run is told in one place, `committed`, after the commit was answered `Appended`: a tick that lost its
version check, an attempt that was delivered twice, a commit whose answer was lost and that was sent again are told
once, because the journal has them once. A host that dies between the commit and the call tells nothing, and nobody else
does in its place.

An engine that nobody watches has no observer at all, and asks `is None` once a tick. An observer is called on the event
loop, must not block, and must not raise.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from ductor.journal.commit import CommitAnswer
from ductor.journal.events import AnyEvent, AttemptFinished
from ductor.journal.state import RunState

AroundHandler = Callable[[str], AbstractContextManager[object]]
AnswerCommit = Callable[[CommitAnswer], None]


class Observer:
    """Watches, and does nothing; override what is of interest."""

    def ticked(self, duration_s: float) -> None:
        """A tick was computed, whether it decided anything or not."""

    def submitting(self, answer: AnswerCommit) -> AnswerCommit:
        """A commit goes to the store: what shall take its answer. It has to pass it on to `answer`, at once."""
        return answer

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        """A tick's events are in the journal, and `state` has them; neither may be changed or kept.

        Args:
            state: its `at_us` is when the tick began, its `version` names the row.
            has_begun: with this row the run has left `pending`, or had not been there before: once in its life, whoever
                has written its first row.
        """

    def conflicted(self, run_id: str) -> None:
        """A commit lost its version check; the tick is computed again."""

    def traceparent(self, run_id: str) -> str:  # noqa: ARG002 - for those who override it
        """The trace context for the first row of a run that starts now; empty for one that is not traced."""
        return ""

    def around_handler(self, traceparent: str) -> AbstractContextManager[object]:  # noqa: ARG002 - as above
        """Entered around the call of a handler whose attempt is traced, in its task or thread."""
        return nullcontext()

    def batch_written(self, commits: int, duration_s: float) -> None:
        """The store has written a batch of so many commits. Stores that write none by one don't tell."""

    def attempt_reported(self, task: str, finished: AttemptFinished) -> None:
        """A worker's result for this handler is durable. Told by workers, not by hosts."""

    def loop_blocked(self, task: str, duration_s: float) -> None:
        """The event loop stood still for so long, in this handler; empty when it was something else."""


class Observers(Observer):
    """Several as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    def ticked(self, duration_s: float) -> None:
        for one in self._observers:
            one.ticked(duration_s)

    def submitting(self, answer: AnswerCommit) -> AnswerCommit:
        for one in self._observers:
            answer = one.submitting(answer)
        return answer

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        for one in self._observers:
            one.committed(state, events, has_begun=has_begun)

    def conflicted(self, run_id: str) -> None:
        for one in self._observers:
            one.conflicted(run_id)

    def traceparent(self, run_id: str) -> str:
        """Of the first that has one."""
        return next((found for one in self._observers if (found := one.traceparent(run_id))), "")

    @contextmanager
    def around_handler(self, traceparent: str) -> Iterator[None]:
        with ExitStack() as stack:
            for one in self._observers:
                stack.enter_context(one.around_handler(traceparent))
            yield

    def batch_written(self, commits: int, duration_s: float) -> None:
        for one in self._observers:
            one.batch_written(commits, duration_s)

    def attempt_reported(self, task: str, finished: AttemptFinished) -> None:
        for one in self._observers:
            one.attempt_reported(task, finished)

    def loop_blocked(self, task: str, duration_s: float) -> None:
        for one in self._observers:
            one.loop_blocked(task, duration_s)


def begins(before: str, status: str) -> bool:
    """Whether a row takes a run up: its head said nothing, or `pending`, and does not any more."""
    return before in ("", "pending") and status != "pending"


def observer_of(observers: Sequence[Observer]) -> Observer | None:
    """One observer for all of them; None for none."""
    if not observers:
        return None
    return observers[0] if len(observers) == 1 else Observers(observers)
