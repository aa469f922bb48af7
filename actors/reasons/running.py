"""Why a step is running still: who has it, since when, and until when at most."""

from ductor.actors.reasons.reason import Reason, Subject
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.step import WorkerStep
from ductor.definitions.values import JsonObject


def running_reason(subject: Subject, node: ProgramNode) -> Reason:
    """The attempt in flight."""
    state = subject.node_state(node.ref)
    details: JsonObject = {
        "task": state.task,
        "attempt": state.attempt,
        "generation": state.generation,
        "queue": state.queue,
    }
    if state.iteration:
        details["round"] = state.iteration + 1
    round_text = f" of round {state.iteration + 1}" if state.iteration else ""
    text = f"attempt {state.attempt}{round_text} of task `{state.task}` is in flight"
    if node.undoes:
        text += f", to undo step `{node.undoes}`"
    elif subject.state.closing is not None and not node.is_defer:
        text += ", and was told to stop"
    if subject.state.paused_at_us is not None:
        text += "; its result is kept until the run is resumed"
    return Reason(
        kind="running",
        text=text,
        since_us=state.dispatched_at_us,
        until_us=_total_deadline_us(node, state.round_started_at_us + subject.state.paused_in_round_us(state)),
        ref=node.ref,
        children=_nobody_has_it(subject, node, state.task),
        details=details,
    )


def _total_deadline_us(node: ProgramNode, round_started_at_us: int) -> int | None:
    assert isinstance(node.step, WorkerStep)
    total_ms = node.step.timeout.total_ms
    return None if total_ms is None else round_started_at_us + total_ms * 1_000


def _nobody_has_it(subject: Subject, node: ProgramNode, task: str) -> tuple[Reason, ...]:
    hosts = subject.hosts
    if not hosts:
        return (Reason(kind="no_worker", text="no host is alive that could run it", ref=node.ref),)
    if any(task in host.tasks for host in hosts):
        return ()
    text = f"none of the {len(hosts)} hosts that are alive has a handler `{task}`"
    details: JsonObject = {"task": task, "hosts": [host.host_id for host in hosts]}
    return (Reason(kind="no_worker", text=text, ref=node.ref, details=details),)
