"""Phase 0: what operators ask of a run. One control a tick, before everything else.

A control that can't be carried out is refused with the reason, on record. Pausing a paused run, and resuming one that
is not paused, are refused too: the one who asked should know.
"""

from collections.abc import Callable
from typing import Final

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.closing import begin_closing, end_pause, terminate
from ductor.actors.tick.compensation import compensate
from ductor.actors.tick.continuing import continue_by_control
from ductor.actors.tick.redrive import redrive
from ductor.actors.tick.working import Tick
from ductor.journal.compaction import MAX_COMPACTED_STATE_BYTES, compacted, state_size_bytes
from ductor.journal.events import ControlReceived, ErrorInfo, RunPaused


def apply_control(tick: Tick, control: ControlReceived) -> str:
    """Carry out one control. Returns why it is refused, empty when it is applied."""
    if control.kind in _OF_ENDED_RUNS:
        return _OF_ENDED_RUNS[control.kind](tick, control)
    if tick.state.is_terminal:
        return f"the run has ended as {tick.state.status}"
    if control.kind in _OF_OPEN_RUNS:
        return _OF_OPEN_RUNS[control.kind](tick, control)
    return f"{control.kind} is not something this version of ductor can do to a run"


def _cancel(tick: Tick, control: ControlReceived) -> str:
    closing = tick.state.closing
    if closing is not None and closing.is_compensating:
        return f"the run is ending as {closing.status}, and a cancel does not stop its undos"
    why = _why(control)
    tick.emit(control)
    end_pause(tick)
    begin_closing(tick, "cancelled", error=ErrorInfo(type="RunCancelled", message=why, retryable=False), reason=why)
    return ""


def _terminate(tick: Tick, control: ControlReceived) -> str:
    tick.emit(control)
    end_pause(tick)
    terminate(tick, _why(control))
    return ""


def _pause(tick: Tick, control: ControlReceived) -> str:
    state = tick.state
    if state.paused_at_us is not None:
        return "the run is paused already"
    closing = state.closing
    if closing is not None and (not closing.is_compensating or closing.defers_started):
        return "the run is ending"
    tick.emit(control)
    reason = control.arguments.get("reason")
    tick.emit(RunPaused(by=control.by, reason=reason if isinstance(reason, str) else ""))
    return ""


def _resume(tick: Tick, control: ControlReceived) -> str:
    state = tick.state
    if state.paused_at_us is None:
        return "the run is not paused"
    tick.emit(control)
    end_pause(tick)
    for ref in list(state.open_nodes):
        if state.nodes[ref].status == "waiting" and state.nodes[ref].waiting != "lease":
            node = tick.program.node(ref)
            BEHAVIOURS[node.step.type_name].on_resume(tick, node)
    return ""


def _compact(tick: Tick, control: ControlReceived) -> str:
    """The state is that before the row, so nothing may have been decided in it yet."""
    if tick.events or tick.state.version <= 1:
        return "the run has only just begun: there is nothing to compact"
    event = compacted(tick.state)
    size_bytes = state_size_bytes(event)
    if size_bytes > MAX_COMPACTED_STATE_BYTES:
        return (
            f"the run's state has {size_bytes} bytes and a journal row takes {MAX_COMPACTED_STATE_BYTES}; "
            "continue the run as new instead"
        )
    tick.emit(event)
    tick.emit(control)
    return ""


def _why(control: ControlReceived) -> str:
    by = f" by {control.by}" if control.by else ""
    reason = control.arguments.get("reason")
    return f"{control.kind} requested{by}" + (f": {reason}" if isinstance(reason, str) and reason else "")


CarryOut = Callable[[Tick, ControlReceived], str]

_OF_ENDED_RUNS: Final[dict[str, CarryOut]] = {"redrive": redrive, "compensate": compensate}
_OF_OPEN_RUNS: Final[dict[str, CarryOut]] = {
    "cancel": _cancel,
    "terminate": _terminate,
    "pause": _pause,
    "resume": _resume,
    "continue_as_new": continue_by_control,
    "compact": _compact,
}
