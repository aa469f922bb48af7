"""Fold, continued: how a run ends. See `ductor.journal.fold`."""

import msgspec

from ductor.journal.events import (
    CONTINUE_TIMER,
    GRACE_TIMER,
    RUN_TIMEOUT_TIMER,
    CompensationRequested,
    CompensationsStarted,
    ContinueRequested,
    DefersStarted,
    HistoryWarned,
    RunClosing,
    RunContinued,
    RunEnded,
)
from ductor.journal.state import Closing, Continuing, RunState


def run_closing(state: RunState, event: RunClosing) -> None:
    """How the run ends is decided; nothing starts any more."""
    state.closing = Closing(
        status=event.status,
        error=event.error,
        output=event.output,
        output_ref=event.output_ref,
        reason=event.reason,
    )
    state.continuing = None
    state.timers.cancel(RUN_TIMEOUT_TIMER)
    state.timers.cancel(CONTINUE_TIMER)
    state.touched.clear()
    state.agenda.clear()
    state.filling.clear()
    if event.grace_until_us is not None:
        state.timers.set(GRACE_TIMER, event.grace_until_us)


def compensations_started(state: RunState, event: CompensationsStarted) -> None:
    """The undos run now."""
    if state.closing is not None:
        state.closing = msgspec.structs.replace(state.closing, is_compensating=True)
    state.timers.cancel(GRACE_TIMER)


def compensation_requested(state: RunState, event: CompensationRequested) -> None:
    """Who asked for the undos will be told."""
    state.report_to = event.report_to
    state.report_id = event.report_id


def defers_started(state: RunState, event: DefersStarted) -> None:
    """The deferred steps run now."""
    if state.closing is not None:
        state.closing = msgspec.structs.replace(state.closing, defers_started=True)
    state.timers.cancel(GRACE_TIMER)
    state.touched.extend(event.defers)


def run_ended(state: RunState, event: RunEnded) -> None:
    """The run is over."""
    closing = state.closing
    end = event if closing is None or closing.status != event.status else closing
    state.status = event.status
    state.output = end.output
    state.output_ref = end.output_ref
    state.error = end.error
    state.reason = end.reason
    state.compensated = event.compensated
    state.report_to = state.report_id = ""
    _end(state)


def continue_requested(state: RunState, event: ContinueRequested) -> None:
    """Nothing starts any more; another run will go on."""
    state.continuing = Continuing(request_id=event.request_id, reason=event.reason, is_timed=event.is_timed)
    state.timers.set(CONTINUE_TIMER, event.until_us)


def history_warned(state: RunState, event: HistoryWarned) -> None:
    """The journal has become long; that is said once."""
    state.is_warned = True


def run_continued(state: RunState, event: RunContinued) -> None:
    """The run is over, another one goes on."""
    state.status = "continued"
    state.successor_run_id = event.successor_run_id
    state.reason = event.reason
    state.open_children.clear()
    _end(state)


def _end(state: RunState) -> None:
    state.ended_at_us = state.at_us
    state.closing = None
    state.continuing = None
    leave_pause(state)
    state.timers.clear()
    state.inbox.clear()
    state.touched.clear()
    state.agenda.clear()
    state.filling.clear()
    state.lease_key, state.lease_fence = "", 0


def leave_pause(state: RunState) -> None:
    """The run is not paused any more."""
    state.paused_at_us = None
    state.paused_by = ""
    state.pause_reason = ""
