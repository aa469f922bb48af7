"""What a parked step waits for: a time, a message, people, or its own next attempt."""

from collections.abc import Callable

import msgspec

from ductor.actors.reasons.child_runs import child_run_reason
from ductor.actors.reasons.leases import lease_reason
from ductor.actors.reasons.people import approval_reason, asked_reason
from ductor.actors.reasons.reason import Reason, Subject, condition_details, listed, shown, standing_still
from ductor.actors.steps.event_set import arrived_events, missing_names
from ductor.actors.steps.wait import ends_at_goal
from ductor.actors.tick.retry import policy_for
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.expressions.correlation import Correlation
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.digest import DigestStep
from ductor.definitions.steps.event_set import EventSetStep
from ductor.definitions.steps.step import ParkedStep, WorkerStep
from ductor.definitions.steps.wait import WaitStep
from ductor.definitions.values import JsonObject
from ductor.journal.codec import encode_value
from ductor.journal.events import WaitingType


def parked_reason(subject: Subject, node: ProgramNode) -> Reason:
    """What a waiting step waits for, since when, and until when at most."""
    state = subject.node_state(node.ref)
    assert state.waiting is not None
    if state.waiting == "lease":
        return lease_reason(subject, node)  # its own timeout has not begun
    reason = _REASONS[state.waiting](subject, node)
    return msgspec.structs.replace(
        reason,
        ref=node.ref,
        since_us=state.parked_at_us,
        until_us=subject.deadline_us(node.ref),
        children=(*reason.children, *_timeout(subject, node)),
    )


def _timeout(subject: Subject, node: ProgramNode) -> tuple[Reason, ...]:
    """What happens when its time is up."""
    step, state = node.step, subject.node_state(node.ref)
    if not isinstance(step, ParkedStep) or step.timeout_ms is None or ends_at_goal(state):
        return ()
    if isinstance(step, EventSetStep) and step.policy == "until_timeout":
        what = "then it goes on with what has arrived"
    elif "timeout" in node.routes:
        what = "then its `timeout` edge is taken"
    else:
        what = {"fail": "then it fails", "skip": "then it is skipped", "approve": "then it counts as approved"}[
            step.on_timeout
        ]
    text = f"its timeout is {format_duration_ms(step.timeout_ms)}: {what}{standing_still(subject, node.ref)}"
    return (
        Reason(
            kind="timeout",
            text=text,
            since_us=state.parked_at_us,
            until_us=subject.deadline_us(node.ref),
            ref=node.ref,
            details={"timeout_ms": step.timeout_ms, "on_timeout": step.on_timeout},
        ),
    )


def _timer(subject: Subject, node: ProgramNode) -> Reason:
    step = node.step
    assert isinstance(step, WaitStep)
    forms = {
        "duration": None if step.duration_ms is None else format_duration_ms(step.duration_ms),
        "until": step.until_us,
        "cron": step.cron,
        "until_expr": step.until_expr,
    }
    form, stated = next((form, stated) for form, stated in forms.items() if stated is not None)
    details: JsonObject = {"form": form, form: stated}
    if step.cron is not None:
        details["timezone"] = step.timezone
        text = f"waits for the next time that fits `{step.cron}` in {step.timezone}"
    elif step.duration_ms is not None:
        text = f"waits for {stated}"
    else:
        text = "waits until a fixed time" if step.until_us is not None else f"waits as `{stated}` said when it began"
    if ends_at_goal(subject.node_state(node.ref)):
        text += standing_still(subject, node.ref)
    else:
        text += ", which comes after its timeout"
    return Reason(kind="timer", text=text, details=details)


def _signal(subject: Subject, node: ProgramNode) -> Reason:
    names = [name.removeprefix("signal:") for name in subject.node_state(node.ref).names]
    return Reason(kind="signal", text=f"waits for the signal `{listed(names)}`", details={"signal": names[0]})


def _event(subject: Subject, node: ProgramNode) -> Reason:
    step = node.step
    assert isinstance(step, WaitStep)
    details: JsonObject = {"event": step.event, "lookback_ms": step.lookback_ms}
    text = f"waits for the event `{step.event}`"
    if step.match is not None:
        details["match"] = step.match
        text += f" with `{step.match}`"
        correlated = _correlation(subject, node.correlations.get("match"))
        if correlated:
            details["correlation"] = correlated
            text += f", where `event.{correlated['path']}` must equal {encode_value(correlated['value']).decode()}"
    return Reason(kind="event", text=text, details=details)


def _correlation(subject: Subject, correlation: Correlation | None) -> JsonObject:
    """Where in the event a value must equal one of the run, and that value, as it is now; empty where there is none."""
    if correlation is None:
        return {}
    try:
        return {"path": correlation.path, "value": shown(correlation.value.evaluate(subject.tick.activation))}
    except ExpressionError as error:
        return {"path": correlation.path, "value": None, "error": str(error)}


def _event_set(subject: Subject, node: ProgramNode) -> Reason:
    step = node.step
    assert isinstance(step, EventSetStep)
    arrived = [str(event["name"]) for event in arrived_events(subject.tick, node)]
    missing = missing_names(subject.tick, node)
    needs = {
        "all_required": f"waits for all of its events; missing: {listed(missing)}",
        "any": f"waits for any of {listed(missing)}",
        "quorum": f"waits for events of {step.quorum} names, {len(set(arrived))} have come; missing: {listed(missing)}",
        "count": f"waits for {step.count} events, {len(subject.node_state(node.ref).messages)} have come",
        "until_timeout": f"collects events until its timeout; {len(arrived)} have come",
    }[step.policy]
    details: JsonObject = {
        "policy": step.policy,
        "arrived": list(arrived),
        "missing": list(missing),
        "matches": {str(index): awaited.match for index, awaited in enumerate(step.events) if awaited.match},
    }
    if step.until is not None:
        needs += f"; the event `{step.until.event}` ends it"
        details["until"] = {"event": step.until.event, "match": step.until.match}
    return Reason(kind="event_set", text=needs, details=details)


def _retry(subject: Subject, node: ProgramNode) -> Reason:
    step, state = node.step, subject.node_state(node.ref)
    assert isinstance(step, WorkerStep)
    error = state.error
    assert error is not None
    policy = policy_for(step.retry, error)
    allowed = state.attempt if policy is None else policy.max_attempts
    text = (
        f"attempt {state.attempt} of at most {allowed} failed ({error.type}: {error.message}); "
        f"waits before attempt {state.attempt + 1}{standing_still(subject, node.ref)}"
    )
    details: JsonObject = {
        "error": {"type": error.type, "message": error.message},
        "attempt": state.attempt,
        "max_attempts": allowed,
        "attempts_left": allowed - state.attempt,
    }
    return Reason(kind="retry", text=text, details=details)


def _repeat(subject: Subject, node: ProgramNode) -> Reason:
    step, state = node.step, subject.node_state(node.ref)
    assert isinstance(step, WorkerStep)
    repeat = step.repeat
    assert repeat is not None
    rounds = state.iteration + 1
    text = (
        f"`until` did not hold after {rounds} of at most {repeat.max} rounds; waits before the next one"
        f"{standing_still(subject, node.ref)}"
    )
    output = subject.state.value(state.output, state.output_ref)
    activation = subject.tick.activation.with_own(
        {"output": output, "error": None, "iteration": state.iteration, "previous": None}
    )
    condition = condition_details(node.expressions["repeat.until"], activation)
    child = Reason(kind="guard", text=f"`{repeat.until}` decides whether it goes on", ref=node.ref, details=condition)
    return Reason(
        kind="repeat",
        text=text,
        children=(child,),
        details={"rounds": rounds, "max_rounds": repeat.max, "every_ms": repeat.every_ms},
    )


def _digest(subject: Subject, node: ProgramNode) -> Reason:
    step, state = node.step, subject.node_state(node.ref)
    assert isinstance(step, DigestStep)
    data = subject.state.value(state.data, state.data_ref)
    assert isinstance(data, dict)
    window = step.window
    assert window.duration_ms is not None
    duration = format_duration_ms(window.duration_ms)
    full = f", or with {window.count} items" if window.count is not None else ""
    text = (
        f"waits for the window of {encode_value(data['key']).decode()} to close: {duration} after its first item{full}"
    )
    details: JsonObject = {
        "key": data["key"],
        "item": shown(data["item"]),
        "duration_ms": window.duration_ms,
        "count": window.count,
    }
    return Reason(kind="digest", text=text, details=details)


_REASONS: dict[WaitingType, Callable[[Subject, ProgramNode], Reason]] = {
    "child": child_run_reason,
    "timer": _timer,
    "signal": _signal,
    "event": _event,
    "event_set": _event_set,
    "approval": approval_reason,
    "interaction": asked_reason,
    "retry": _retry,
    "repeat": _repeat,
    "digest": _digest,
}
