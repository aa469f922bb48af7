"""Phase 0: what operators ask of a run. One control a tick, before everything else.

A control that can't be carried out is refused with the reason, on record. Pausing a paused run, and resuming one that
is not paused, are refused too: the one who asked should know.
"""

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.closing import begin_closing, terminate
from ductor.actors.tick.redrive import redrive
from ductor.actors.tick.working import Tick
from ductor.journal.events import ControlReceived, ErrorInfo, RunPaused, RunResumed


def apply_control(tick: Tick, control: ControlReceived) -> str:
    """Carry out one control. Returns why it is refused, empty when it is applied."""
    state = tick.state
    if control.kind == "redrive":
        return redrive(tick, control)
    if state.is_terminal:
        return f"the run has ended as {state.status}"
    why = _why(control)
    if control.kind == "cancel":
        tick.emit(control)
        _resume(tick)
        error = ErrorInfo(type="RunCancelled", message=why, retryable=False)
        begin_closing(tick, "cancelled", error=error, reason=why)
        return ""
    if control.kind == "terminate":
        tick.emit(control)
        _resume(tick)
        terminate(tick, why)
        return ""
    if control.kind == "pause":
        return _pause(tick, control)
    if control.kind == "resume":
        if state.paused_at_us is None:
            return "the run is not paused"
        tick.emit(control)
        _resume(tick)
        for ref in list(state.open_nodes):
            if state.nodes[ref].status == "waiting":
                node = tick.program.node(ref)
                BEHAVIOURS[node.step.type_name].on_resume(tick, node)
        return ""
    return f"{control.kind} is not something this version of ductor can do to a run"


def _why(control: ControlReceived) -> str:
    by = f" by {control.by}" if control.by else ""
    reason = control.arguments.get("reason")
    return f"{control.kind} requested{by}" + (f": {reason}" if isinstance(reason, str) and reason else "")


def _pause(tick: Tick, control: ControlReceived) -> str:
    state = tick.state
    if state.paused_at_us is not None:
        return "the run is paused already"
    if state.closing is not None:
        return "the run is ending"
    tick.emit(control)
    reason = control.arguments.get("reason")
    tick.emit(RunPaused(by=control.by, reason=reason if isinstance(reason, str) else ""))
    return ""


def _resume(tick: Tick) -> None:
    paused_at_us = tick.state.paused_at_us
    if paused_at_us is not None:
        tick.emit(RunResumed(paused_us=tick.now_us - paused_at_us))
