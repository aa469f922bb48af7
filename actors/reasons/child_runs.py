"""What a step waits for that has started a child run: how far the child has to come, and what happens if it takes too
long."""

from ductor.actors.reasons.reason import Reason, Subject, standing_still
from ductor.actors.tick.children import TERMINAL
from ductor.definitions.durations import format_duration_ms
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps import SubworkflowStep
from ductor.definitions.steps.subworkflow import CHECKPOINT_PREFIX
from ductor.definitions.values import JsonObject

ON_TIMEOUT = {
    "fail_parent": "then the step fails",
    "detach": "then the step succeeds with the child's id",
    "continue_with_error": "then the step fails and its `error` edges are taken",
}


def child_run_reason(subject: Subject, node: ProgramNode) -> Reason:
    """Which run the step waits for, and until it has done what."""
    state, step = subject.node_state(node.ref), node.step
    if node.undoes:
        run_id = subject.node_state(node.undoes).child_run_id
        text = f"waits until run {run_id} has undone what it had done, to undo step `{node.undoes}`"
        return Reason(kind="child", text=text, ref=node.ref, details={"run_id": run_id, "undoes": node.undoes})
    details: JsonObject = {"run_id": state.child_run_id, "generation": state.generation}
    if not isinstance(step, SubworkflowStep):
        return Reason(kind="child", text=f"waits for run {state.child_run_id}", ref=node.ref, details=details)
    definition = step.definition or "its inline body"
    details |= {"definition": step.definition or node.body, "wait_for": step.wait_for}
    goal = "to end" if step.wait_for == TERMINAL else f"to reach `{step.wait_for.removeprefix(CHECKPOINT_PREFIX)}`"
    is_asked = subject.state.closing is not None and state.child_run_id in subject.state.open_children
    asked = ", which was asked to stop," if is_asked else ""
    return Reason(
        kind="child",
        text=f"waits for run {state.child_run_id} of {definition}{asked} {goal}",
        ref=node.ref,
        details=details,
        children=_timeout(subject, node, step),
    )


def _timeout(subject: Subject, node: ProgramNode, step: SubworkflowStep) -> tuple[Reason, ...]:
    if step.timeout_ms is None:
        return ()
    what = "then its `timeout` edge is taken" if "timeout" in node.routes else ON_TIMEOUT[step.on_timeout]
    text = f"its timeout is {format_duration_ms(step.timeout_ms)}: {what}; the child goes on"
    return (
        Reason(
            kind="timeout",
            text=f"{text}{standing_still(subject, node.ref)}",
            since_us=subject.node_state(node.ref).parked_at_us,
            until_us=subject.deadline_us(node.ref),
            ref=node.ref,
            details={"timeout_ms": step.timeout_ms, "on_timeout": step.on_timeout},
        ),
    )
