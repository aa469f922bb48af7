"""What a scatter waits for: its children, and what keeps further ones from starting."""

from collections.abc import Callable, Iterator
from itertools import islice

from ductor.actors.reasons.reason import Reason, Subject, condition_details, standing_still
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.scatter import ScatterStep
from ductor.definitions.values import JsonObject
from ductor.journal.state import Fanout

MAX_CHILDREN_TOLD = 5
"""Children under way that one scatter tells of, those that have been for the longest."""


def scatter_reason(subject: Subject, node: ProgramNode, reason_of: Callable[[str], Reason]) -> Reason:
    """How many children are under way, which have been for the longest, and why no further one starts.

    Args:
        reason_of: gives the reason of a child.
    """
    step, state = node.step, subject.node_state(node.ref)
    fanout = state.fanout
    assert isinstance(step, ScatterStep)
    assert fanout is not None
    unstarted = fanout.total - fanout.started + len(fanout.again)
    text = (
        f"waits for its children: {fanout.settled} of {fanout.total} have settled "
        f"({fanout.succeeded} succeeded, {fanout.failed} failed), {fanout.open} under way"
    )
    text += f", {unstarted} not started{_why_not_started(subject, node, step, fanout)}" if unstarted else ""
    details: JsonObject = {
        "total": fanout.total,
        "open": fanout.open,
        "succeeded": fanout.succeeded,
        "failed": fanout.failed,
        "not_started": unstarted,
        "concurrency": step.concurrency,
        "interval_ms": step.interval_ms,
    }
    oldest = islice(_open_children(subject, node.ref), MAX_CHILDREN_TOLD)
    return Reason(
        kind="child",
        text=text,
        since_us=state.parked_at_us,
        ref=node.ref,
        children=(*(reason_of(ref) for ref in oldest), *_completion(subject, node, fanout)),
        details=details,
    )


def _open_children(subject: Subject, scatter: str) -> Iterator[str]:
    prefix = f"{scatter}["
    return (ref for ref in subject.state.open_nodes if ref.startswith(prefix))


def _why_not_started(subject: Subject, node: ProgramNode, step: ScatterStep, fanout: Fanout) -> str:
    if step.concurrency is not None and fanout.open >= step.concurrency:
        return f": no more than {step.concurrency} may be under way (`concurrency`)"
    if subject.state.timers.due_at_us(node.ref) is not None:
        pause = format_duration_ms(step.interval_ms)
        return f": {pause} lie between two starts (`interval_ms`){standing_still(subject, node.ref)}"
    return ""


def _completion(subject: Subject, node: ProgramNode, fanout: Fanout) -> tuple[Reason, ...]:
    condition = node.expressions.get("complete_when")
    if condition is None:
        return ()
    own: JsonObject = {"total": fanout.total, "succeeded": fanout.succeeded, "failed": fanout.failed}
    details = condition_details(condition, subject.tick.variables(node, own))
    text = f"it is done before that once `{condition.source}` holds"
    return (Reason(kind="guard", text=text, ref=node.ref, details=details),)
