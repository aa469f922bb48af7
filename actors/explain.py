"""Explain: why a run does not move, or why it ended as it did. Pure.

Each step that has not settled is told once, with the reasons behind its reason: what is under way first, in Kahn order,
then what has not begun, from the far end, with the steps that it waits for beneath it. A step that was told before is
only named. Of a run that has ended those steps are told that did not succeed. The reasons come from the predicates by
which the scheduler and the step types decide, in `ductor.actors.tick` and `ductor.actors.steps`.

Values are those of now: a guard or a choice that was decided earlier may have seen another context.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from ductor.actors.queue.items import TokenState
from ductor.actors.reasons.parked import parked_reason
from ductor.actors.reasons.pending import pending_reason
from ductor.actors.reasons.reason import NO_LINES, NO_WORKERS, Reason, ReasonKind, Subject
from ductor.actors.reasons.running import running_reason
from ductor.actors.reasons.scattered import scatter_reason
from ductor.actors.reasons.settled import settled_reason
from ductor.actors.reasons.whole_run import run_reasons
from ductor.definitions.durations import format_duration_ms, format_timestamp_us
from ductor.definitions.program import Program, ProgramNode
from ductor.definitions.steps.scatter import ScatterStep
from ductor.journal.events import RUN_LEASE, SETTLED_NODE_STATUSES, RunStatus
from ductor.journal.lease_store import LeaseLine
from ductor.journal.records import HostRecord
from ductor.journal.state import RunState, child_place
from ductor.journal.worker_store import WorkerRecord

MAX_STEPS_TOLD = 1_000
"""Steps that one explanation tells; the rest is counted."""

BESIDE_STEPS: Final[frozenset[ReasonKind]] = frozenset({"edge", "guard", "timeout", "no_worker", "dead_letter"})
"""Reasons of a step that stand beneath the one that names it."""

MAX_DEPTH = 20
"""Steps beneath each other; one that lies deeper is told on its own."""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run is where it is.

    Attributes:
        version: of the journal that the run was read at; `now_us` when.
        run: reasons that are about no single step.
        steps: of the steps, with those behind them beneath.
        omitted: steps that are not told because there are too many.
    """

    run_id: str
    definition: str
    status: RunStatus
    version: int
    now_us: int
    run: tuple[Reason, ...]
    steps: tuple[Reason, ...]
    omitted: int = 0


def explain(
    state: RunState,
    program: Program,
    *,
    hosts: Sequence[HostRecord],
    now_us: int,
    set_aside: str | None = None,
    lease_lines: Mapping[str, LeaseLine] = NO_LINES,
    workers: Sequence[WorkerRecord] = NO_WORKERS,
    queued: Mapping[str, TokenState] | None = None,
) -> Explanation:
    """Explain a run. The state is left as it is.

    Args:
        hosts: those that are alive, with the handlers that they have.
        now_us: the present by the database's clock.
        set_aside: why a host leaves the run alone, None where none does.
        lease_lines: what nodes that wait for a lease have before them (`nodes_with_a_line`).
        workers: those that are alive.
        queued: how the queue between processes holds attempts in flight (`queued_attempts`).
    """
    subject = Subject(program, state, hosts, now_us, lease_lines, workers, queued)
    teller = _Teller(subject)
    steps = teller.ended() if state.is_terminal else teller.unsettled()
    return Explanation(
        run_id=state.run_id,
        definition=state.definition,
        status=state.status,
        version=state.version,
        now_us=subject.now_us,
        run=tuple(run_reasons(subject, set_aside)),
        steps=tuple(steps),
        omitted=teller.omitted,
    )


def lines(explanation: Explanation) -> list[str]:
    """The explanation for people, one reason a line, what is behind it indented."""
    found = [f"run {explanation.run_id} of {explanation.definition} is {explanation.status}"]
    for reason in (*explanation.run, *explanation.steps):
        _add_lines(found, reason, explanation.now_us, depth=1)
    if explanation.omitted:
        found.append(f"  and {explanation.omitted} more steps")
    return found


class _Teller:
    """Tells each step once. Steps in `_told` have been told, or are being told by a call further up."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._told: set[str] = set()
        self._depth = 0
        self.omitted = 0

    def unsettled(self) -> list[Reason]:
        """Steps under way, then those that have not begun."""
        nodes = self._subject.program.nodes
        under_way = sorted(self._open_nodes(), key=lambda node: node.position)
        waiting = [node for node in reversed(tuple(nodes.values())) if not self._has_begun(node.ref)]
        waiting.sort(key=lambda node: node.is_defer)
        found = [self._tell(node) for node in (*under_way, *waiting) if node.ref not in self._told]
        self.omitted = sum(node.ref not in self._told for node in (*under_way, *waiting))
        return [reason for reason in found if reason is not None]

    def ended(self) -> list[Reason]:
        """Steps that did not succeed, in Kahn order."""
        nodes = self._subject.program.nodes.values()
        found = [reason for node in nodes if (reason := settled_reason(self._subject, node)) is not None]
        self.omitted = max(0, len(found) - MAX_STEPS_TOLD)
        return found[:MAX_STEPS_TOLD]

    def _open_nodes(self) -> Iterator[ProgramNode]:
        """Nodes under way, but for the children of a scatter that tells of them itself."""
        state, program = self._subject.state, self._subject.program
        for ref in state.open_nodes:
            place = child_place(ref)
            if ref == RUN_LEASE:
                continue
            if place is None or place[0] not in state.open_nodes:
                yield program.node(ref)

    def _has_begun(self, ref: str) -> bool:
        status = self._subject.node_state(ref).status
        return status in SETTLED_NODE_STATUSES or status in ("running", "waiting")

    def _tell(self, node: ProgramNode) -> Reason | None:
        if len(self._told) >= MAX_STEPS_TOLD:
            return None
        self._told.add(node.ref)
        status = self._subject.node_state(node.ref).status
        if status == "running":
            return running_reason(self._subject, node)
        if status == "waiting" and isinstance(node.step, ScatterStep):
            return scatter_reason(self._subject, node, self._beneath)
        if status == "waiting":
            return parked_reason(self._subject, node)
        return pending_reason(self._subject, node, self._beneath)

    def _beneath(self, ref: str) -> Reason:
        """The reason of a step that another one waits for."""
        reason: Reason | None = None
        if ref not in self._told and self._depth < MAX_DEPTH:
            self._depth += 1
            reason = self._tell(self._subject.program.node(ref))
            self._depth -= 1
        status = self._subject.node_state(ref).status
        return reason or Reason(kind="told_elsewhere", text=f"is {status}", ref=ref, details={"status": status})


def _add_lines(found: list[str], reason: Reason, now_us: int, *, depth: int) -> None:
    who = f"{reason.ref}: " if reason.ref and reason.kind not in BESIDE_STEPS else ""
    found.append(f"{'  ' * depth}{who}{reason.text}{_times(reason, now_us)}")
    for child in reason.children:
        _add_lines(found, child, now_us, depth=depth + 1)


def _times(reason: Reason, now_us: int) -> str:
    parts: list[str] = []
    if reason.since_us is not None:
        parts.append(f"since {_moment(reason.since_us)}, for {_span(now_us - reason.since_us)}")
    if reason.until_us is not None:
        left_us = reason.until_us - now_us
        parts.append(f"until {_moment(reason.until_us)}, {f'in {_span(left_us)}' if left_us > 0 else 'due'}")
    return f" ({'; '.join(parts)})" if parts else ""


def _moment(at_us: int) -> str:
    return format_timestamp_us(at_us // 1_000_000 * 1_000_000)


def _span(span_us: int) -> str:
    """To the second: nobody reads more of it."""
    return format_duration_ms(max(0, span_us) // 1_000_000 * 1_000)
