"""What must be undone, worked out from a journal alone: a second opinion on `ductor.actors.tick.compensation`."""

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.program import Program
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    CompensationsStarted,
    ControlReceived,
    DefersStarted,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
)


class UndoModel:
    """Follows a journal.

    Attributes:
        done: steps whose work is done and not undone, in the order of their completion.
        failed: those whose undo failed, in the order in which it did.
        undone: those whose undo succeeded.
        undos: how many undos have begun.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.done: list[str] = []
        self.failed: list[str] = []
        self.undone: set[str] = set()
        self.undos = 0
        self._has_worked: dict[str, bool] = {}
        self._open: set[str] = set()
        self._closing = self._kind = ""
        self._began = self._has_undone = self._runs_defers = False

    def follow(self, event: AnyEvent) -> None:
        """One more event of the journal."""
        match event:
            case ControlReceived():
                self._kind = event.kind
            case AttemptDispatched() | NodeParked():
                self._open.add(event.node)
                if event.node.endswith(UNDO_SUFFIX):
                    self._undo_is_under_way(event)
            case AttemptFinished():
                self._open.discard(event.node)
                self._has_worked[event.node] = event.outcome == "succeeded"
            case NodeSettled():
                self._open.discard(event.node)
                self._settled(event)
            case RunClosing():
                self._closing, self._has_undone, self._runs_defers = event.status, False, False
            case CompensationsStarted():
                assert not self._has_undone, "the undos begin twice"
                assert self.done, "there is nothing to undo"
                self._has_undone = True
            case DefersStarted():
                self._runs_defers = True
                assert not (self.done and self._closing in ("failed", "cancelled")), "deferred steps come before undos"
            case RunEnded():
                self._ended(event)
            case RunReopened():
                self._reopened({reset.node for reset in event.nodes})

    def _undo_is_under_way(self, event: AttemptDispatched | NodeParked) -> None:
        undone = event.node.removesuffix(UNDO_SUFFIX)
        assert self._has_undone
        assert not self._runs_defers, "an undo runs beside deferred steps"
        assert self.done, "something is undone that was not done"
        assert self.done[-1] == undone, "an undo is out of order"
        assert self._open == {event.node}, "an undo runs beside something else"
        self.undos += isinstance(event, AttemptDispatched) and event.attempt == 1

    def _settled(self, event: NodeSettled) -> None:
        ref = event.node
        if ref.endswith(UNDO_SUFFIX):
            assert self.done, "something is undone that was not done"
            undone = self.done.pop()
            assert undone == ref.removesuffix(UNDO_SUFFIX), "an undo is out of order"
            if event.status == "succeeded":
                self.undone.add(undone)
            else:
                self.failed.append(undone)
            return
        node = self._program.nodes[ref]
        is_done = event.status == "succeeded" and event.outcome != "timeout"
        is_done |= event.status == "failed" and self._has_worked.get(ref, False)
        if is_done and node.step.compensate is not None and not node.is_defer:
            assert ref not in self.done
            self.done.append(ref)

    def _ended(self, event: RunEnded) -> None:
        assert not self._open, "the run ends with something under way"
        if event.status in ("failed", "cancelled"):
            assert not self.done, "the run ends without having undone all"
        left = bool(self.done or self.failed)
        expected = "" if not self._has_undone else "partial" if left else "true"
        assert event.compensated == expected
        self._closing, self._has_undone = "", False

    def _reopened(self, reset: set[str]) -> None:
        if self._kind == "redrive":
            assert self.undone <= reset, "what was undone is taken to be in effect"
        else:
            assert not reset, "a run that is only to be undone does something anew"
        self.undone -= reset
        self.done = [ref for ref in (*self.done, *reversed(self.failed)) if ref not in reset]
        self.failed = []
        for ref in reset:
            self._has_worked.pop(ref, None)
