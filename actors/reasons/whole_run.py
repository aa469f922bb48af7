"""Why the run as a whole is where it is."""

from collections.abc import Iterator

from ductor.actors.reasons.leases import run_lease_reason
from ductor.actors.reasons.reason import Reason, Subject, listed, shown, standing_still
from ductor.actors.tick.continuing import SAFETY_NET_MULTIPLE
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.values import JsonObject
from ductor.journal.events import CONTINUE_TIMER, GRACE_TIMER, RUN_TIMEOUT_TIMER
from ductor.journal.state import Closing


def run_reasons(subject: Subject, set_aside: str | None) -> Iterator[Reason]:
    """The reasons that are about no single step."""
    state = subject.state
    if set_aside is not None:
        text = f"set aside on a host after failures: {set_aside}"
        yield Reason(kind="set_aside", text=text, details={"error": set_aside})
    if state.is_terminal:
        yield _ended(subject)
        return
    if not subject.hosts:
        yield Reason(kind="no_host", text="no host is alive that could carry it on")
    lease = run_lease_reason(subject)
    if lease is not None:
        yield lease
    if state.paused_at_us is not None:
        yield _paused(subject)
    elif not state.nodes or state.tick_limited:
        yield Reason(kind="next_tick", text="its next tick goes on with steps that are ready")
    if state.closing is not None:
        yield _ending(subject)
    if state.continuing is not None:
        yield _continuing(subject)
    if state.is_warned:
        yield _long(subject)
    timeout_ms = subject.program.manifest.timeout_ms
    if timeout_ms is not None and state.timers.due_at_us(RUN_TIMEOUT_TIMER) is not None:
        still = standing_still(subject, RUN_TIMEOUT_TIMER)
        yield Reason(
            kind="run_timeout",
            text=f"its timeout is {format_duration_ms(timeout_ms)}{still}",
            since_us=state.started_at_us,
            until_us=subject.deadline_us(RUN_TIMEOUT_TIMER),
            details={"timeout_ms": timeout_ms, "on_timeout": subject.program.manifest.on_timeout},
        )
    if state.inbox:
        names = list(dict.fromkeys(message.name for message in state.inbox.values()))
        text = f"{len(state.inbox)} signals are kept that nothing waits for: {listed(names)}"
        since_us = min(message.at_us for message in state.inbox.values())
        details: JsonObject = {"count": len(state.inbox), "names": shown(list(names))}
        yield Reason(kind="buffered_signals", text=text, since_us=since_us, details=details)


def _paused(subject: Subject) -> Reason:
    state = subject.state
    by = f" by {state.paused_by}" if state.paused_by else ""
    why = f": {state.pause_reason}" if state.pause_reason else ""
    text = f"paused{by}{why}; nothing begins and timers stand still until it is resumed"
    details: JsonObject = {"by": state.paused_by, "reason": state.pause_reason}
    return Reason(kind="paused", text=text, since_us=state.paused_at_us, details=details)


def _ending(subject: Subject) -> Reason:
    state = subject.state
    closing = state.closing
    assert closing is not None
    if closing.defers_started:
        rest = "its steps of `defer` run"
    elif closing.is_compensating:
        rest = _undoing(subject, closing)
    elif state.running_count:
        rest = f"{state.running_count} attempts in flight were told to stop"
    else:
        rest = "nothing is in flight any more"
    why = f" ({closing.reason})" if closing.reason else ""
    return Reason(
        kind="ending",
        text=f"ending as {closing.status}{why}: {rest}",
        until_us=subject.deadline_us(GRACE_TIMER),
        details={"status": closing.status, "reason": closing.reason},
    )


def _continuing(subject: Subject) -> Reason:
    state = subject.state
    continuing = state.continuing
    assert continuing is not None
    if continuing.is_timed:
        rest = "the pause before its next round"
    else:
        rest = f"{len(state.open_nodes)} steps under way may finish first"
    why = f" ({continuing.reason})" if continuing.reason else ""
    return Reason(
        kind="continuing",
        text=f"about to be continued as a new run{why}: {rest}{standing_still(subject, CONTINUE_TIMER)}",
        until_us=subject.deadline_us(CONTINUE_TIMER),
        details={"request_id": continuing.request_id, "reason": continuing.reason},
    )


def _long(subject: Subject) -> Reason:
    state, limit = subject.state, subject.program.manifest.continue_as_new_after
    text = (
        f"its journal has {state.version} transitions, and `continue_as_new_after` is {limit}: beyond it the run is"
        " continued as a new one as soon as no step is under way; at"
        f" {SAFETY_NET_MULTIPLE} times as many it is terminated"
    )
    return Reason(kind="long", text=text, details={"transitions": state.version, "limit": limit})


def _undoing(subject: Subject, closing: Closing) -> str:
    undoable = subject.state.undoable
    settled = closing.undos_done + closing.undos_failed
    failed = f", {closing.undos_failed} failed" if closing.undos_failed else ""
    if not undoable:
        return f"what it had done is undone ({settled} steps{failed})"
    return f"undoing {undoable[-1]} ({settled + 1} of {settled + len(undoable)}{failed})"


def _ended(subject: Subject) -> Reason:
    state = subject.state
    text = f"ended as {state.status}"
    details: JsonObject = {"status": state.status, "reason": state.reason}
    if state.successor_run_id is not None:
        text = f"continued as run {state.successor_run_id}"
        details["successor_run_id"] = state.successor_run_id
    if state.error is not None:
        text += f" with {state.error.type}: {state.error.message}".removesuffix(": ")
        details["error"] = {"type": state.error.type, "message": state.error.message}
    if state.reason and (state.error is None or state.reason != state.error.message):
        text += f" ({state.reason})"
    if state.compensated:
        left = [*state.undoable, *reversed(state.not_undone)]
        text += f"; not undone: {listed(left)}" if left else "; what it had done was undone"
        if state.chain_run_id is not None:
            text += "; what the runs before it did is done for good"
        details |= {"compensated": state.compensated, "not_undone": shown(list(left))}
    return Reason(kind="ended", text=text, since_us=state.ended_at_us, details=details)
