"""Why a step of a run that has ended did not succeed, or never began."""

from ductor.actors.reasons.pending import edge_reason, guard_reason
from ductor.actors.reasons.reason import Reason, Subject
from ductor.actors.tick.retry import policy_for
from ductor.actors.tick.schedule import readiness
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.step import WorkerStep
from ductor.definitions.values import JsonObject
from ductor.journal.events import SETTLED_NODE_STATUSES, ErrorInfo

WITHDRAWN = "withdrawn"
"""The outcome of a cancelled step that another step or a message cancelled, not the end of its run."""


def settled_reason(subject: Subject, node: ProgramNode) -> Reason | None:
    """Why the step is not among those that succeeded; None for one that did."""
    status = subject.node_state(node.ref).status
    if status == "failed":
        return _failed(subject, node)
    if status == "skipped":
        return _skipped(subject, node)
    if status == "cancelled":
        return _cancelled(subject, node)
    return None if status == "succeeded" else _not_reached(subject, node)


def _failed(subject: Subject, node: ProgramNode) -> Reason:
    state, step = subject.node_state(node.ref), node.step
    error = state.error or ErrorInfo(type="Unknown")
    text = f"failed with {error.type}: {error.message}"
    details: JsonObject = {"error": {"type": error.type, "message": error.message}, "attempts": state.generation}
    if isinstance(step, WorkerStep) and state.generation:
        details["attempt"] = state.attempt
        text += f"; {_why_no_retry(step, error, state.attempt)}"
    return Reason(kind="failed", text=text, ref=node.ref, details=details)


def _why_no_retry(step: WorkerStep, error: ErrorInfo, attempt: int) -> str:
    if not error.retryable:
        return "no retry can mend that"
    policy = policy_for(step.retry, error)
    if policy is None:
        return "no retry policy of the step is for that"
    if attempt >= policy.max_attempts:
        return f"all {policy.max_attempts} attempts are used"
    return f"attempt {attempt + 1} of {policy.max_attempts} was not made: the run ended, or no time was left"


def _skipped(subject: Subject, node: ProgramNode) -> Reason:
    state = subject.node_state(node.ref)
    if state.parked_at_us:
        return Reason(kind="skipped", text="skipped when its time was up (`on_timeout: skip`)", ref=node.ref)
    if not readiness(subject.state, node, state.sources_settled, state.sources_taken) and not node.is_defer:
        text = f"skipped: too few edges led here for `join: {node.step.join}`"
        return Reason(kind="skipped", text=text, ref=node.ref, children=_edges(subject, node))
    return Reason(
        kind="skipped", text="skipped by its guard `run_if`", ref=node.ref, children=(guard_reason(subject, node),)
    )


def _cancelled(subject: Subject, node: ProgramNode) -> Reason:
    run, state = subject.state, subject.node_state(node.ref)
    if state.outcome == WITHDRAWN:
        return Reason(kind="cancelled", text=f"cancelled by {_who_withdrew(subject, node)}", ref=node.ref)
    text = f"cancelled because the run ended as {run.status}" + (f": {run.reason}" if run.reason else "")
    return Reason(kind="cancelled", text=text, ref=node.ref)


def _who_withdrew(subject: Subject, node: ProgramNode) -> str:
    version = subject.node_state(node.ref).settled_version
    for ref, other in subject.program.nodes.items():
        state = subject.node_state(ref)
        if node.ref in other.step.cancels and state.status == "succeeded" and state.settled_version == version:
            return f"step `{ref}`, which lists it under `cancels`"
        if node.ref in other.ancestors and state.status != "pending" and state.settled_version >= version:
            return f"step `{ref}`, a join with `cancel_rest`"
    return "a message that the definition hears (`on`)"


def _not_reached(subject: Subject, node: ProgramNode) -> Reason:
    status = subject.state.status
    text = f"never began: the run ended as {status} before"
    children = () if node.is_defer else _edges(subject, node)
    return Reason(kind="not_reached", text=text, ref=node.ref, children=children)


def _edges(subject: Subject, node: ProgramNode) -> tuple[Reason, ...]:
    """What the sources that have settled said."""
    sources = (subject.program.nodes[ref] for ref in node.predecessors)
    return tuple(
        edge_reason(subject, source, node.ref)
        for source in sources
        if subject.node_state(source.ref).status in SETTLED_NODE_STATUSES
    )
