"""Why a step is running still: who has it or could have it, since when, and until when at most.

What waits in the queue between processes is for workers alone: a host never takes attempts from it. What the queue does
not hold is with a host, or on its way.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ductor.actors.queue.items import TokenState
from ductor.actors.reasons.reason import Reason, Subject, listed
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.step import WorkerStep
from ductor.definitions.values import JsonObject
from ductor.journal.ids import attempt_token
from ductor.journal.state import NodeState
from ductor.journal.worker_store import WorkerRecord

_PLACES: Final[Mapping[TokenState | None, str]] = {
    "queued": "; it waits in queue `{queue}` for a worker",
    "leased": "; a worker has it, from queue `{queue}`",
    "dead": "; it was set aside in queue `{queue}`",
    None: "",
}


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
    token = attempt_token(subject.state.run_id, node.ref, state.generation)
    place = subject.queued.get(token) if subject.queued is not None else None
    text += _PLACES[place].format(queue=state.queue)
    if place is not None:
        details["in_queue"] = place
    if subject.state.paused_at_us is not None:
        text += "; its result is kept until the run is resumed"
    return Reason(
        kind="running",
        text=text,
        since_us=state.dispatched_at_us,
        until_us=_total_deadline_us(node, state.round_started_at_us + subject.state.paused_in_round_us(state)),
        ref=node.ref,
        children=_behind(subject, node, state, place, token),
        details=details,
    )


def _total_deadline_us(node: ProgramNode, round_started_at_us: int) -> int | None:
    assert isinstance(node.step, WorkerStep)
    total_ms = node.step.timeout.total_ms
    return None if total_ms is None else round_started_at_us + total_ms * 1_000


def _behind(
    subject: Subject, node: ProgramNode, state: NodeState, place: TokenState | None, token: str
) -> tuple[Reason, ...]:
    """What is wrong with an attempt that does not end, if anything is known to be."""
    if place == "leased":
        return ()
    if place == "dead":
        return (_dead_letter(node, state, token),)
    nobody = _nobody_has_it(subject, node, state, is_queued=place == "queued")
    return () if nobody is None else (nobody,)


def _dead_letter(node: ProgramNode, state: NodeState, token: str) -> Reason:
    text = (
        f"its deliveries ended too often without a word, as when a handler kills its process, and nobody gets it any"
        f" more: `ductor queue dead {state.queue}` lists it, `ductor queue replay {state.queue} {token}` queues it"
        " again; a `total` timeout or a cancellation ends it"
    )
    return Reason(kind="dead_letter", text=text, ref=node.ref, details={"queue": state.queue, "token": token})


def _nobody_has_it(subject: Subject, node: ProgramNode, state: NodeState, *, is_queued: bool) -> Reason | None:
    """That nobody who lives could run the attempt. None where somebody could."""
    task, queue, workers = state.task, state.queue, subject.workers
    hosts = () if is_queued else subject.hosts
    with_handler = [worker for worker in workers if task in worker.tasks]
    if any(task in host.tasks for host in hosts) or any(queue in worker.queues for worker in with_handler):
        return None
    if not hosts and not workers:
        who = "worker" if is_queued else "host"
        return Reason(kind="no_worker", text=f"no {who} is alive that could run it", ref=node.ref)
    counted = [f"{len(hosts)} hosts"] if hosts else []
    counted += [f"{len(workers)} workers"] if workers else []
    text = f"none of the {' and '.join(counted)} that are alive has a handler `{task}`"
    if with_handler:
        text += f" and serves queue `{queue}`; {_others(with_handler)}"
    details: JsonObject = {"task": task, "hosts": [host.host_id for host in hosts]}
    if workers:
        details |= {"queue": queue, "workers": [worker.worker_id for worker in workers]}
    return Reason(kind="no_worker", text=text, ref=node.ref, details=details)


def _others(workers: Sequence[WorkerRecord]) -> str:
    """Workers that have a handler, and the queues that they serve."""
    queues = sorted({queue for worker in workers for queue in worker.queues})
    return f"{listed([worker.worker_id for worker in workers])} with this handler serve {listed(queues)}"
