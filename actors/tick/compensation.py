"""Undoing what a run has done, when it ends badly.

```
  closing ──nothing open──▶ undo of the latest step ──settled──▶ of the one before it ──▶ … ──▶ deferred steps, end
```
A step with `compensate` is to be undone once its work is done: it succeeded, or what follows its work (effects, a
choice, `until`) failed to evaluate. A step that failed, was cancelled, or ran out of time while it waited has nothing
to undo. When the run fails or is cancelled, the undos run one after another, the step that was done last first. Each
is a node of its own (`charge.compensate`): of a task with attempts and retries; of `child: true` a wait for the child
run, which is told to undo itself and reports how that went. The input of an undo is evaluated when it begins: it sees
the undone step's own `output`, `error` and `iteration`, and the run as it is by then.

Invariants:
- One undo is under way at most, and none begins while anything else is under way.
- An undo that fails, also because its input does not evaluate, stops no other one. It is remembered (`not_undone`), and
  the run ends `compensated: partial`.
- Nothing stops an undo but `terminate`: a cancel is refused, a pause keeps the next one from beginning.
- A step that is undone leaves `undoable` with the row in which its undo settles, so none is undone twice.

`terminate` undoes nothing. What it left, what failed to be undone, and all that a completed run has done can be undone
later by the control `compensate`, which reopens the run for that alone. A parent asks its child the same way. The child
answers in any case: one that has undone itself before says so at once, one that is under way is cancelled first. For
one that never began, as its key was another run's, the store answers that nothing is to be undone.
"""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.closing import begin_closing, end_pause, report_undone
from ductor.actors.tick.settle import expression_failure, fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.program import ProgramNode
from ductor.definitions.values import JsonObject
from ductor.journal.commit import SentControl
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import (
    ChildReported,
    CompensationRequested,
    CompensationsStarted,
    ControlReceived,
    EndStatus,
    ErrorInfo,
    NodeParked,
    RunClosing,
    RunReopened,
)


def undo_next(tick: Tick) -> bool:
    """Begin the undo of the step that was done last. False where nothing is to be undone."""
    state = tick.state
    closing = state.closing
    if closing is None or not state.wants_undo:
        return False
    if not closing.is_compensating:
        tick.emit(CompensationsStarted())
    tick.starts += 1
    node = tick.program.node(state.undoable[-1] + UNDO_SUFFIX)
    try:
        if node.step.type_name == "task":
            BEHAVIOURS["task"].start(tick, node)
        else:
            _ask_child(tick, node)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))
    return True


def undo_reported(tick: Tick, node: ProgramNode, report: ChildReported) -> None:
    """The child run has undone itself, as far as it could."""
    if report.compensated == "partial":
        message = f"child run {report.run_id} could not undo all that it had done"
        fail(tick, node, ErrorInfo(type="CompensationIncomplete", message=message, retryable=False))
    else:
        succeed(tick, node, "success", None)


def compensate(tick: Tick, control: ControlReceived) -> str:
    """Undo what a run that has ended has done and not undone. Returns why not, empty when done.

    Of a parent's request nothing is refused: the parent waits for the outcome, whatever it is.
    """
    state = tick.state
    report_to, report_id = _report(control.arguments)
    if not state.is_terminal:
        if not report_to:
            return "the run has not ended; it undoes what it has done when it is cancelled"
        tick.emit(control)
        tick.emit(CompensationRequested(report_to=report_to, report_id=report_id))
        end_pause(tick)
        begin_closing(tick, "cancelled", error=_undone_error(control), reason=_reason(control))
        return ""
    if not state.undoable and not state.not_undone:
        if not report_to:
            done = "; what the runs before it did is done for good" if state.chain_run_id is not None else ""
            return f"nothing that the run has done is left to undo{done}"
        tick.emit(control)
        report_undone(tick, report_to, report_id, state.compensated)
        return ""
    _reopen(tick, control, report_to, report_id)
    return ""


def _reopen(tick: Tick, control: ControlReceived, report_to: str, report_id: str) -> None:
    """The run is under way again, to undo and for nothing else. One that had completed ends as cancelled."""
    state = tick.state
    status: EndStatus = "cancelled"
    error, reason = _undone_error(control), _reason(control)
    if state.status in ("failed", "cancelled", "terminated"):
        status, error, reason = state.status, state.error or error, state.reason
    tick.emit(control)
    if report_to:
        tick.emit(CompensationRequested(report_to=report_to, report_id=report_id))
    tick.emit(RunReopened(nodes=()))
    tick.emit(RunClosing(status=status, error=error, reason=reason))
    tick.emit(CompensationsStarted())


def _ask_child(tick: Tick, node: ProgramNode) -> None:
    state = tick.state
    child_run_id = state.nodes[node.undoes].child_run_id
    epoch = state.reopened_count
    tick.emit(NodeParked(node=node.ref, waiting="child"))
    tick.outbox.controls.append(
        SentControl(
            run_id=child_run_id,
            request_id=f"undo:{state.run_id}:{node.ref}:{epoch}",
            kind="compensate",
            arguments={"report_to": node.ref, "report_id": f"child:{child_run_id}:compensated:{epoch}"},
            by=f"run:{state.run_id}",
        )
    )


def _report(arguments: JsonObject) -> tuple[str, str]:
    report_to, report_id = arguments.get("report_to"), arguments.get("report_id")
    return (report_to, report_id) if isinstance(report_to, str) and isinstance(report_id, str) else ("", "")


def _reason(control: ControlReceived) -> str:
    if "report_to" in control.arguments:
        return "its parent undoes the step that started it"
    by = f" by {control.by}" if control.by else ""
    given = control.arguments.get("reason")
    return f"compensate requested{by}" + (f": {given}" if isinstance(given, str) and given else "")


def _undone_error(control: ControlReceived) -> ErrorInfo:
    return ErrorInfo(type="RunCompensated", message=_reason(control), retryable=False)
