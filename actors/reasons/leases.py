"""What a step or a whole run that waits for a lease has before it."""

from itertools import islice

from ductor.actors.reasons.reason import Reason, Subject, standing_still
from ductor.definitions.durations import format_duration_ms, format_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import RUN_LEASE
from ductor.journal.lease_store import LeaseEntry, LeaseLine
from ductor.journal.state import RunState

MAX_LINES_TOLD = 100
"""Nodes of one run of which it is told who is ahead of them; of the others only what they wait for."""


def lease_reason(subject: Subject, node: ProgramNode) -> Reason:
    """Why a step has not got its lease yet."""
    return _waiting(subject, node.ref)


def run_lease_reason(subject: Subject) -> Reason | None:
    """Why the whole run has not begun; None where it waits for no lease."""
    return _waiting(subject, RUN_LEASE) if RUN_LEASE in subject.state.nodes else None


def nodes_with_a_line(state: RunState) -> list[str]:
    """The nodes of which it is told who is ahead of them: those that wait for a lease, the first `MAX_LINES_TOLD`."""
    waiting = (ref for ref in state.open_nodes if state.nodes[ref].waiting == "lease")
    return list(islice(waiting, MAX_LINES_TOLD))


def _waiting(subject: Subject, ref: str) -> Reason:
    state = subject.node_state(ref)
    data = state.data
    assert isinstance(data, dict)
    details: JsonObject = {"key": state.lease_key, "limit": data["limit"]}
    text = f"waits for the lease `{state.lease_key}`, which {data['limit']} may hold at once"
    line = subject.lease_lines.get(ref)
    if state.lease_fence:
        text = f"has the lease `{state.lease_key}` and starts with the next tick"
    elif line is not None:
        text += f"; {_line(line)}"
        details |= {"position": line.ahead + 1, "held": line.held, "holders": [_holder(one) for one in line.holders]}
    children = _timeout(subject, ref)
    return Reason(
        kind="lease",
        text=text,
        ref="" if ref == RUN_LEASE else ref,
        since_us=state.parked_at_us,
        until_us=subject.deadline_us(ref),
        details=details,
        children=children,
    )


def _line(line: LeaseLine) -> str:
    held = ", ".join(_told(one) for one in line.holders)
    more = f" and {line.held - len(line.holders)} more" if line.held > len(line.holders) else ""
    place = f"it is number {line.ahead + 1} in line"
    return f"{place}; held by {held}{more}" if held else f"{place}; nobody holds it, it is about to be granted"


def _told(holder: LeaseEntry) -> str:
    whose = f"run {holder.run_id}" + ("" if holder.node == RUN_LEASE else f", step {holder.node}")
    return f"{whose} since {format_timestamp_us(holder.since_us // 1_000_000 * 1_000_000)}"


def _holder(holder: LeaseEntry) -> JsonValue:
    return {"run_id": holder.run_id, "node": holder.node, "since_us": holder.since_us, "fence": holder.fence}


def _timeout(subject: Subject, ref: str) -> tuple[Reason, ...]:
    """What happens when it does not come in time."""
    program = subject.program
    node = None if ref == RUN_LEASE else program.node(ref)
    lease = program.manifest.lease if node is None else node.step.lease
    if lease is None or lease.timeout_ms is None or subject.node_state(ref).lease_fence:
        return ()
    what = (
        "the run fails" if node is None else "its `timeout` edge is taken" if "timeout" in node.routes else "it fails"
    )
    text = f"waits for {format_duration_ms(lease.timeout_ms)} at most: then {what}{standing_still(subject, ref)}"
    return (
        Reason(
            kind="timeout",
            text=text,
            since_us=subject.node_state(ref).parked_at_us,
            until_us=subject.deadline_us(ref),
            ref="" if node is None else ref,
            details={"timeout_ms": lease.timeout_ms},
        ),
    )
