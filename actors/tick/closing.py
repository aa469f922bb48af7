"""How a run ends.

```
  open ──begin_closing──▶ closing ──nothing open──▶ defers running ──settled──▶ ended
                             │ grace over: what is still in flight is cancelled
```
Closing begins when a step fails for good, when nothing is left to do, by `transform.end`, by the run's timeout or by a
cancel. No step starts any more; parked steps are cancelled at once; attempts in flight are told to stop and may finish
within the grace time, so that no deferred step runs beside them. Then the deferred steps run once, whatever the end,
and what becomes of them does not change it. `terminate` does none of this: the run ends at once.
"""

from ductor.actors.tick.working import CANCEL_GRACE_MS, Tick, Withdrawal
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import (
    DefersStarted,
    EndStatus,
    ErrorInfo,
    NodeSettled,
    PayloadRef,
    RunClosing,
    RunEnded,
)


def begin_closing(
    tick: Tick,
    status: EndStatus,
    *,
    error: ErrorInfo | None = None,
    output: JsonValue = None,
    output_ref: PayloadRef | None = None,
    reason: str = "",
) -> None:
    """Decide how the run ends; where nothing is left to be done first, it ends. The first decision stands."""
    state = tick.state
    if state.closing is not None:
        return
    if not state.open_nodes and not tick.program.defers:
        tick.emit(RunEnded(status=status, output=output, output_ref=output_ref, error=error, reason=reason))
        return
    grace_until_us = tick.now_us + CANCEL_GRACE_MS * 1_000 if state.running_count else None
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
            tick.withdrawn.append(Withdrawal(ref, node.generation))
        else:
            tick.emit(NodeSettled(node=ref, status="cancelled"))


def close_open_nodes(tick: Tick) -> None:
    """The grace time is over: what is still in flight is cancelled, its results no longer count."""
    state = tick.state
    for ref in list(state.open_nodes):
        node = state.nodes[ref]
        if node.status == "running":
            tick.withdrawn.append(Withdrawal(ref, node.generation))
        tick.emit(NodeSettled(node=ref, status="cancelled"))


def terminate(tick: Tick, reason: str) -> None:
    """End the run at once."""
    close_open_nodes(tick)
    error = ErrorInfo(type="RunTerminated", message=reason, retryable=False)
    tick.emit(RunEnded(status="terminated", error=error, reason=reason))


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
    """Carry the decided end one stage further, as far as it goes now."""
    state = tick.state
    closing = state.closing
    if closing is None or state.open_nodes:
        return
    if not closing.defers_started and tick.program.defers:
        tick.emit(DefersStarted(defers=tick.program.defers))
    elif not state.touched and not state.agenda:
        tick.emit(RunEnded(status=closing.status))


def _run_output(tick: Tick) -> JsonValue:
    program = tick.program
    if program.output is not None:
        return program.output.render(tick.activation)
    outputs: JsonObject = {}
    for ref in program.default_outputs:
        node = tick.state.nodes.get(ref)
        if node is not None and node.status == "succeeded":
            outputs[ref] = tick.state.value(node.output, node.output_ref)
    return outputs
