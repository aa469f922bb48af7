"""A second opinion on undos: what must be undone, worked out from a journal alone. Part of the rules of `RunModel`.

What was done last is undone first, when nothing else is under way and before deferred steps; nothing is undone twice,
and nothing that was not done. A run that fails or is cancelled has tried to undo all that it had done when it ends, and
says truly what came of it. A redrive does anew what was undone.
"""

from collections.abc import Callable

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.program import Program
from ductor.definitions.steps import SubworkflowStep
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildReported,
    ChildStarted,
    CompensationsStarted,
    ControlReceived,
    DefersStarted,
    LeaseGranted,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunEnded,
    ScatterStarted,
)

UNDOING = frozenset({"failed", "cancelled"})
NOTHING_DONE = frozenset({"timeout", "merged"})
"""Outcomes of steps that succeed without having done what is theirs."""


class UndoModel:
    """Follows a journal; `report` takes what is wrong.

    Attributes:
        done: steps whose work is done and not undone, in the order of their completion.
        failed: those whose undo failed, in the order in which it did.
        undone: those whose undo succeeded.
        undos: how many undos have begun.
    """

    def __init__(self, program: Program, report: Callable[[str], None]) -> None:
        self._program, self._report = program, report
        self.done: list[str] = []
        self.failed: list[str] = []
        self.undone: set[str] = set()
        self.undos = 0
        self._has_worked: dict[str, bool] = {}
        self._awaited: dict[str, str] = {}
        self._open: set[str] = set()
        self._closing = self._control = ""
        self._has_begun = self._runs_defers = False

    def follow(self, event: AnyEvent) -> None:
        """One more event, which is not `run_reopened`."""
        if isinstance(event, ChildStarted | ChildReported):
            self._follow_child(event)
            return
        match event:
            case ControlReceived():
                self._control = event.kind
            case AttemptDispatched() | NodeParked() | ScatterStarted():
                self._open.add(event.node)
                if event.node.endswith(UNDO_SUFFIX):
                    self._under_way(event)
            case AttemptFinished():
                self._open.discard(event.node)
                self._has_worked[event.node] = event.outcome == "succeeded"
            case LeaseGranted():
                self._open.discard(event.node)
            case NodeSettled():
                self._settled(event)
            case RunClosing():
                self._closing, self._has_begun, self._runs_defers = event.status, False, False
            case CompensationsStarted():
                self._expect(not self._has_begun, "the undos begin twice")
                self._expect(bool(self.done), "undos begin, and nothing is to be undone")
                self._has_begun = True
            case DefersStarted():
                self._runs_defers = True
                self._expect(self._closing not in UNDOING or not self.done, "deferred steps begin before all is undone")
            case RunEnded():
                self._ended(event)

    def reopened(self, anew: set[str]) -> list[str]:
        """The run goes on with these steps done anew. Gives the undos that count no more."""
        if self._control == "redrive":
            taken = sorted(self.undone - anew)
            self._expect(not taken, f"a redrive takes {taken} to be in effect, which is undone")
        else:
            self._expect(not anew, "a run that is only to be undone does something anew")
        gone = [ref for ref in (*self.done, *self.failed, *self.undone) if ref in anew or ref in self.failed]
        self.undone -= anew
        self.done = [ref for ref in (*self.done, *reversed(self.failed)) if ref not in anew]
        self.failed = []
        for ref in anew:
            self._has_worked.pop(ref, None)
        return [ref + UNDO_SUFFIX for ref in gone]

    def _under_way(self, event: AttemptDispatched | NodeParked | ScatterStarted) -> None:
        self._expect(self._has_begun and not self._runs_defers, f"{event.node} begins, and it is not the time of undos")
        self._expect(self.done[-1:] == [event.node.removesuffix(UNDO_SUFFIX)], f"{event.node} is out of order")
        self._expect(self._open == {event.node}, f"{event.node} runs beside something else")
        self.undos += isinstance(event, AttemptDispatched) and event.attempt == 1

    def _follow_child(self, event: ChildStarted | ChildReported) -> None:
        ref = event.node
        if isinstance(event, ChildStarted):
            self._open.add(ref)
            step = self._program.node(ref).step
            self._has_worked[ref] = isinstance(step, SubworkflowStep) and step.mode == "async"
            self._awaited[ref] = event.run_id
        elif self._awaited.get(ref) == event.run_id:
            self._has_worked[ref] = event.status in {"completed", "checkpoint"}

    def _settled(self, event: NodeSettled) -> None:
        ref = event.node
        self._open.discard(ref)
        self._awaited.pop(ref, None)
        if ref.endswith(UNDO_SUFFIX):
            undone = ref.removesuffix(UNDO_SUFFIX)
            self._expect(self.done[-1:] == [undone], f"{ref} is out of order")
            if undone in self.done:
                self.done.remove(undone)
            if event.status == "succeeded":
                self.undone.add(undone)
            else:
                self.failed.append(undone)
            return
        is_done = event.status == "succeeded" and event.outcome not in NOTHING_DONE
        is_done |= event.status == "failed" and self._has_worked.get(ref, False)
        if is_done and not ref.startswith("@"):
            node = self._program.node(ref)
            if node.step.compensate is not None and not node.is_defer:
                self.done.append(ref)

    def _ended(self, event: RunEnded) -> None:
        if event.status in UNDOING:
            self._expect(not self.done, f"the run ends without having undone {self.done}")
        expected = "" if not self._has_begun else "partial" if self.done or self.failed else "true"
        told = f"the run ends compensated `{event.compensated}`, and it is `{expected}`"
        self._expect(event.compensated == expected, told)
        self._closing, self._has_begun = "", False

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self._report(what)
