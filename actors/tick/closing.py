"""How a run ends.

```
  open ──begin_closing──▶ closing ──nothing open──▶ undos ──none left──▶ defers running ──settled──▶ ended
                             │ grace over: what is still in flight is cancelled
```
Closing begins when a step fails for good, when nothing is left to do, by `transform.end`, by the run's timeout or by a
cancel. No step starts any more; parked steps are cancelled at once; attempts in flight and child runs are told to stop
and may finish within the grace time, so that no deferred step runs beside them. A run that fails or is cancelled then
undoes what it has done (`ductor.actors.tick.compensation`). Then the deferred steps run once, whatever the end, and
what becomes of them does not change it. `terminate` does none of this: the run ends at once.
"""

from ductor.actors.tick.children import may_report, stop_children
from ductor.actors.tick.gathering import output_of
from ductor.actors.tick.working import CANCEL_GRACE_MS, Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.child_reports import undone_message
from ductor.journal.commit import SentMessage
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import (
    Compensated,
    DefersStarted,
    EndStatus,
    ErrorInfo,
    NodeSettled,
    PayloadRef,
    RunClosing,
    RunEnded,
    RunResumed,
)
from ductor.journal.state import UNDOING_STATUSES


def begin_closing(
    tick: Tick,
    status: EndStatus,
    *,
    error: ErrorInfo | None = None,
    output: JsonValue = None,
    output_ref: PayloadRef | None = None,
    reason: str = "",
) -> None:
    """Decide how the run ends; where nothing is left to be done first, it ends. The first decision stands, also where
    it has ended the run in this row."""
    state = tick.state
    if state.closing is not None or state.is_terminal:
        return
    stop_children(tick, status)
    has_undos = bool(state.undoable) and status in UNDOING_STATUSES
    if not state.open_nodes and not tick.program.defers and not has_undos:
        end(tick, RunEnded(status=status, output=output, output_ref=output_ref, error=error, reason=reason))
        return
    may_finish = state.running_count or any(may_report(tick, ref) for ref in state.open_nodes)
    grace_until_us = tick.now_us + CANCEL_GRACE_MS * 1_000 if may_finish else None
    tick.emit(
        RunClosing(
            status=status,
            error=error,
            output=output,
            output_ref=output_ref,
            reason=reason,
            grace_until_us=grace_until_us,
        )
    )
    for ref in list(state.open_nodes):
        node = state.nodes[ref]
        if node.status == "running":
            tick.withdraw(ref, node.generation)
        elif not may_report(tick, ref):
            tick.emit(NodeSettled(node=ref, status="cancelled"))


def close_open_nodes(tick: Tick) -> None:
    """The grace time is over: what is still in flight is cancelled, its results no longer count."""
    state = tick.state
    for ref in list(state.open_nodes):
        node = state.nodes[ref]
        if node.status == "running":
            tick.withdraw(ref, node.generation)
        tick.emit(NodeSettled(node=ref, status="cancelled"))


def terminate(tick: Tick, reason: str, error_type: str = "RunTerminated") -> None:
    """End the run at once."""
    stop_children(tick, "terminated")
    close_open_nodes(tick)
    error = ErrorInfo(type=error_type, message=reason, retryable=False)
    end(tick, RunEnded(status="terminated", error=error, reason=reason, compensated=_compensated(tick)))


def complete(tick: Tick) -> None:
    """Nothing is left to do: the run completes with its output. An output that fails to evaluate fails the run."""
    try:
        output, output_ref = tick.keep(_run_output(tick), "output of the run")
    except (ExpressionError, ValueRefusedError) as error:
        kind = "ExpressionError" if isinstance(error, ExpressionError) else "ValueRefused"
        info = ErrorInfo(type=kind, message=str(error), retryable=False)
        begin_closing(tick, "failed", error=info, reason="the output of the run failed")
        return
    begin_closing(tick, "completed", output=output, output_ref=output_ref)


def advance_closing(tick: Tick) -> None:
    """Carry the decided end one stage further, as far as it goes now. Nothing is left to undo."""
    state = tick.state
    closing = state.closing
    if closing is None or state.open_nodes:
        return
    if not closing.defers_started and _has_defers_left(tick):
        tick.emit(DefersStarted(defers=tick.program.defers))
    else:
        end(tick, RunEnded(status=closing.status, compensated=_compensated(tick)))


def end(tick: Tick, event: RunEnded) -> None:
    """The run ends; a parent that has asked it to undo itself is told how that went."""
    report_to, report_id = tick.state.report_to, tick.state.report_id
    tick.emit(event)
    if report_to:
        report_undone(tick, report_to, report_id, event.compensated)


def end_pause(tick: Tick) -> None:
    """A paused run goes on; nothing happens to any other."""
    paused_at_us = tick.state.paused_at_us
    if paused_at_us is not None:
        tick.emit(RunResumed(paused_us=tick.now_us - paused_at_us))


def report_undone(tick: Tick, report_to: str, report_id: str, compensated: Compensated) -> None:
    """Tell the parent that this run has undone itself, as far as it could."""
    state = tick.state
    assert state.parent_run_id is not None
    run_id = state.chain_run_id or state.run_id  # as the parent knows it
    message = undone_message(run_id, report_to, report_id, compensated)
    tick.outbox.sent.append(SentMessage(state.parent_run_id, message))


def _has_defers_left(tick: Tick) -> bool:
    """Whether deferred steps have yet to run. Those of a run that was reopened only to be undone have run."""
    nodes = tick.state.nodes
    return any(ref not in nodes or nodes[ref].status == "pending" for ref in tick.program.defers)


def _compensated(tick: Tick) -> Compensated:
    """What becomes of the undos of a run that ends now."""
    state = tick.state
    if state.closing is None or not state.closing.is_compensating:
        return ""
    return "partial" if state.undoable or state.not_undone else "true"


def _run_output(tick: Tick) -> JsonValue:
    program = tick.program
    if program.output is not None:
        return program.output.render(tick.activation)
    outputs: JsonObject = {}
    for ref in program.default_outputs:
        node = tick.state.nodes.get(ref)
        if node is not None and node.status == "succeeded":
            outputs[ref] = output_of(tick.state, ref, node)
    return outputs
