"""What people are told about runs: views made of the journal, never of a live actor."""

from collections.abc import Sequence

import msgspec

from ductor.actors.children_of_steps import ChildCounts, child_counts
from ductor.actors.tick.gathering import output_of
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.manifest import CompiledManifest
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import decode_events
from ductor.journal.events import AnyEvent, Compensated, ErrorInfo, RunStatus
from ductor.journal.records import Head, Transition
from ductor.journal.state import NodeState, RunState


class Started(msgspec.Struct, frozen=True):
    """A start's answer. `is_new` is False where the start key already had a run."""

    run_id: str
    is_new: bool


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a journal. `iteration` is the place of its run in its chain."""

    run_id: str
    iteration: int = 0
    version: int
    at_us: int
    hash: str
    events: tuple[AnyEvent, ...]


def history_row(row: Transition, iteration: int) -> HistoryRow:
    """A row as people see it."""
    return HistoryRow(
        run_id=row.run_id,
        iteration=iteration,
        version=row.version,
        at_us=row.at_us,
        hash=row.hash.hex(),
        events=tuple(decode_events(row.events, run_id=row.run_id, version=row.version)),
    )


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended. `successor_run_id` is that of the run that continues one which is `continued`; `compensated`:
    all that it had done was undone (`true`), or not all (`partial`); empty where there was nothing to undo."""

    run_id: str
    status: RunStatus
    output: JsonValue = None
    error: ErrorInfo | None = None
    successor_run_id: str | None = None
    compensated: Compensated = ""


class StepView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a run.

    Attributes:
        attempts: dispatched so far, over all rounds.
        waiting: what a parked step waits for, and until when at most.
        task: the handler of the attempt in flight.
        dispatched_at_us: when that attempt was dispatched.
        children: of a scatter that has its items: how far its children are.
        undo: the status of its undo, empty as long as that has not begun; undo_error: what it failed with.
    """

    ref: str
    type: str
    status: str
    outcome: str = ""
    attempts: int = 0
    iteration: int = 0
    waiting: str = ""
    until_us: int | None = None
    task: str = ""
    dispatched_at_us: int = 0
    output: JsonValue = None
    error: ErrorInfo | None = None
    is_defer: bool = False
    children: ChildCounts | None = None
    undo: str = ""
    undo_error: ErrorInfo | None = None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run as it stands after `version` rows of its journal.

    Attributes:
        reason: why it ended or is going to, or why another one continues it.
        iteration: its place in its chain; chain_run_id, continued_from_run_id, successor_run_id: the first run of it,
            the one before and the one after, as far as there are such.
        compensated: as of `RunOutcome`.
        not_undone: of a run that ended badly: steps that were done and have an undo which failed or did not run.
    """

    run_id: str
    tenant: str
    definition: str
    definition_version: str
    manifest_hash: str
    version: int
    status: RunStatus
    key: str | None
    trigger: JsonValue
    context: JsonObject
    search_attributes: JsonObject
    started_at_us: int
    updated_at_us: int
    ended_at_us: int | None
    output: JsonValue
    error: ErrorInfo | None
    reason: str
    steps: tuple[StepView, ...]
    iteration: int = 0
    chain_run_id: str | None = None
    continued_from_run_id: str | None = None
    successor_run_id: str | None = None
    compensated: Compensated = ""
    not_undone: tuple[str, ...] = ()


def outcome_of(state: RunState) -> RunOutcome:
    """How a run that has ended did so."""
    return RunOutcome(
        run_id=state.run_id,
        status=state.status,
        output=state.value(state.output, state.output_ref),
        error=state.error,
        successor_run_id=state.successor_run_id,
        compensated=state.compensated,
    )


def run_view(head: Head, state: RunState, manifest: CompiledManifest) -> RunView:
    """Make a view of a folded state."""
    steps = [_step_view(state, step.ref, step.type_name, is_defer=False) for step in manifest.steps]
    steps += [_step_view(state, step.ref, step.type_name, is_defer=True) for step in manifest.defer]
    return RunView(
        run_id=state.run_id,
        tenant=state.tenant,
        definition=state.definition,
        definition_version=manifest.version,
        manifest_hash=state.manifest_hash,
        version=state.version,
        status=state.status,
        key=state.key,
        trigger=state.value(state.trigger, state.trigger_ref),
        context=state.context,
        search_attributes=state.search_attributes,
        started_at_us=state.started_at_us,
        updated_at_us=max(state.at_us, head.updated_at_us),
        ended_at_us=state.ended_at_us or None,
        output=state.value(state.output, state.output_ref),
        error=state.error,
        reason=state.closing.reason if state.closing is not None else state.reason,
        steps=tuple(steps),
        iteration=state.iteration,
        chain_run_id=state.chain_run_id,
        continued_from_run_id=state.continued_from_run_id,
        successor_run_id=state.successor_run_id,
        compensated=state.compensated,
        not_undone=_not_undone(state),
    )


def _not_undone(state: RunState) -> tuple[str, ...]:
    """In the order in which the steps were done."""
    if not state.is_terminal or state.status in ("completed", "continued"):
        return ()
    return (*state.undoable, *reversed(state.not_undone))


def _step_view(state: RunState, ref: str, type_name: str, *, is_defer: bool) -> StepView:
    node, undo = state.nodes.get(ref) or NodeState(), state.nodes.get(ref + UNDO_SUFFIX) or NodeState()
    status: str = node.status
    if state.is_terminal and status == "pending":
        status = "cancelled"  # the run ended before it came to this step
    succeeded = status == "succeeded"
    return StepView(
        ref=ref,
        type=type_name,
        status=status,
        outcome=node.outcome,
        attempts=node.generation,
        iteration=node.iteration,
        waiting=node.waiting or "",
        until_us=node.until_us,
        task=node.task if status in ("running", "waiting") else "",
        dispatched_at_us=node.dispatched_at_us if status == "running" else 0,
        output=output_of(state, ref, node) if succeeded else None,
        error=node.error,
        is_defer=is_defer,
        children=None if node.fanout is None else child_counts(node.fanout),
        undo="" if undo.status == "pending" else undo.status,
        undo_error=undo.error,
    )


def statuses(steps: Sequence[StepView]) -> dict[str, str]:
    """Status by ref."""
    return {step.ref: step.status for step in steps}
