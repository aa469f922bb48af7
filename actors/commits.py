"""From what a coordinator has in hand to the inputs of a tick, and from its payload to what the store commits and what
workers get. Pure."""

import uuid
from collections.abc import Sequence

import msgspec

from ductor.actors.messages import Assignment, AttemptResult
from ductor.actors.tick.compute import TickInputs
from ductor.actors.tick.outbox import Outbox
from ductor.actors.tick.payload import TickPayload
from ductor.definitions.steps import AnyStep
from ductor.definitions.steps.step import WorkerStep
from ductor.definitions.values import JsonValue
from ductor.journal.chain import link
from ductor.journal.codec import encode_events
from ductor.journal.commit import AttemptDisposition, Commit, HeadStart, HeadUpdate, NewRun, Payload, TimerUpdate
from ductor.journal.events import AttemptFinished, ControlReceived, Message, RunEnded
from ductor.journal.fold import finish_row
from ductor.journal.ids import attempt_token
from ductor.journal.records import AttemptRow, Control
from ductor.journal.state import RunState
from ductor.journal.trace_context import attempt_span_id, traceparent_below


def inputs_of(
    results: Sequence[AttemptResult], rows: Sequence[AttemptRow], messages: Sequence[Message], control: Control | None
) -> TickInputs:
    """What a tick absorbs: what workers told, first by themselves, then by rows; what waits in the inbox; a control."""
    finished = [result.finished for result in results]
    if rows:
        finished += map(finished_of, rows)
    inputs = TickInputs(results=finished, messages=messages)
    payloads: list[tuple[Payload, JsonValue]] | None = None
    for result in results:
        if result.payload is not None:
            payloads = payloads or []
            payloads.append((result.payload, result.value))
    if payloads is not None:
        inputs.payloads = payloads
    if control is not None:
        inputs.control = ControlReceived(
            request_id=control.request_id, kind=control.kind, arguments=control.arguments, by=control.by
        )
    return inputs


def commit_of(
    state: RunState,
    payload: TickPayload,
    rows: Sequence[AttemptRow],
    *,
    commit_id: uuid.UUID,
    head_status: str,
    stored_due_us: int | None,
    new_runs: tuple[NewRun, ...] = (),
) -> Commit:
    """What one tick writes; the row is finished, and with it the state.

    Args:
        rows: attempt rows that the tick absorbed.
        head_status, stored_due_us: what the run's head and timer row say now; written only where that changes.
        new_runs: those that the tick starts.
    """
    version, events, chain_hash = 0, b"", b""
    if payload.events:
        version, events = state.version, encode_events(payload.events)
        chain_hash = link(state.last_hash, state.run_id, version, state.at_us, events)
        finish_row(state, chain_hash)
    due_at_us = state.next_due_us
    commit = Commit(
        run_id=state.run_id,
        version=version,
        commit_id=commit_id,
        at_us=state.at_us,
        events=events,
        hash=chain_hash,
        start=_head_start(state) if version == 1 else None,
        # a run that is reopened and ends in one row may end as before
        head=_head_update(state)
        if version > 1 and (state.status != head_status or type(payload.events[-1]) is RunEnded)
        else None,
        timer=TimerUpdate(due_at_us) if version and due_at_us != stored_due_us else None,
        payloads=tuple(payload.payloads),
        controls=() if payload.control is None else (payload.control,),
        attempts=_dispositions(payload, rows) if rows else (),
    )
    return commit if payload.outbox is None else _with_outbox(commit, payload.outbox, new_runs)


def _with_outbox(commit: Commit, outbox: Outbox, new_runs: tuple[NewRun, ...]) -> Commit:
    return msgspec.structs.replace(
        commit,
        messages=tuple(outbox.messages.values()),
        waits=tuple(outbox.waits.values()),
        waits_gone=tuple(outbox.waits_gone),
        inbox=tuple(outbox.inbox.values()),
        inbox_gone=tuple(outbox.inbox_gone),
        digests=tuple(outbox.digests.values()),
        digests_gone=tuple(outbox.digests_gone),
        published=tuple(outbox.published),
        sent=tuple(outbox.sent),
        new_runs=new_runs,
        sent_controls=tuple(outbox.controls),
        leases=tuple(outbox.leases.values()),
        leases_gone=tuple(outbox.leases_gone),
        forwards_to=outbox.forwards_to,
    )


def assignment_of(state: RunState, step: AnyStep, ref: str, *, is_redelivery: bool) -> Assignment:
    """The attempt of a running node, for a worker."""
    assert isinstance(step, WorkerStep)
    node, total_ms = state.nodes[ref], step.timeout.total_ms
    token = attempt_token(state.run_id, ref, node.generation)
    return Assignment(
        token=token,
        run_id=state.run_id,
        tenant=state.tenant,
        definition=state.definition,
        node=ref,
        generation=node.generation,
        attempt=node.attempt,
        iteration=node.iteration,
        task=node.task,
        input=node.input if node.input_ref is None else state.value(None, node.input_ref),
        queue=node.queue,
        priority=step.priority,
        timeouts=step.timeout,
        dispatched_at_us=node.dispatched_at_us,
        total_deadline_us=(
            None if total_ms is None else node.round_started_at_us + state.paused_in_round_us(node) + total_ms * 1_000
        ),
        lease_fence=node.lease_fence or state.lease_fence,
        is_redelivery=is_redelivery,
        traceparent=state.traceparent and traceparent_below(state.traceparent, attempt_span_id(token)),
    )


def finished_of(row: AttemptRow) -> AttemptFinished:
    """An attempt row as the event that its tick records."""
    return AttemptFinished(
        node=row.node,
        generation=row.generation,
        outcome=row.outcome,
        output=row.output,
        output_ref=row.output_ref,
        error=row.error,
        worker=row.worker,
        started_at_us=row.started_at_us,
        finished_at_us=row.finished_at_us,
    )


def row_of(result: AttemptResult) -> AttemptRow:
    """A worker's result as an attempt row."""
    finished = result.finished
    return AttemptRow(
        run_id=result.run_id,
        node=finished.node,
        generation=finished.generation,
        outcome=finished.outcome,
        output=finished.output,
        output_ref=finished.output_ref,
        error=finished.error,
        worker=finished.worker,
        started_at_us=finished.started_at_us,
        finished_at_us=finished.finished_at_us,
    )


def _head_start(state: RunState) -> HeadStart:
    return HeadStart(
        tenant=state.tenant,
        definition=state.definition,
        manifest_hash=state.manifest_hash,
        status=state.status,
        started_at_us=state.started_at_us,
        key=state.key,
        parent_run_id=state.parent_run_id,
        root_run_id=state.root_run_id,
        chain_run_id=state.chain_run_id,
        iteration=state.iteration,
        successor_run_id=state.successor_run_id,
        compensated=state.compensated,
        search_attributes=state.search_attributes,
        ended_at_us=state.ended_at_us or None,
        error_type=state.error.type if state.error is not None else None,
    )


def _head_update(state: RunState) -> HeadUpdate:
    return HeadUpdate(
        status=state.status,
        ended_at_us=state.ended_at_us or None,
        error_type=state.error.type if state.error is not None else None,
        successor_run_id=state.successor_run_id,
        compensated=state.compensated,
    )


def _dispositions(payload: TickPayload, rows: Sequence[AttemptRow]) -> tuple[AttemptDisposition, ...]:
    superseded = {(finished.node, finished.generation) for finished in payload.superseded}
    return tuple(
        AttemptDisposition(
            row.node, row.generation, "superseded" if (row.node, row.generation) in superseded else "applied"
        )
        for row in rows
    )
