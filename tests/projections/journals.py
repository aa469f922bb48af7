"""Journals of random runs, made by the real tick, and what they must give: computed here in the plainest way."""

import random
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence

import asyncpg
import msgspec

from ductor.journal.codec import decode_events, encode_events
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    NodeSettled,
    RunContinued,
    RunEnded,
    RunStarted,
)
from ductor.journal.fold import fold_row
from ductor.journal.postgres.feed import FeedColumns
from ductor.journal.records import Head, Transition
from ductor.journal.state import RunState
from ductor.projections.batch import RowBatch, row_batch
from ductor.projections.rows import step_name
from tests.actors.tick.interleavings import ACTIONS, Played

DEFINITIONS = (
    """
    steps:
      - {ref: s0, type: task, task: work, next: s1}
      - {ref: s1, type: task, task: work, retry: {max_attempts: 2, initial: 3s, jitter: 0}, next: {success: [s2, s3]}}
      - {ref: s2, type: task, task: work, on_error: continue}
      - {ref: s3, type: wait, signal: go, timeout: 9s, on_timeout: skip}
    """,
    """
    context: {n: 0}
    timeout: 40s
    defer: [{ref: last, type: task, task: work}]
    steps:
      - {ref: s0, type: approval, approvers: [ann, bob, cy], quorum: 2, timeout: 6s, on_timeout: approve,
         next: {approved: [s1]}}
      - {ref: s1, type: task, task: work, repeat: {until: 'iteration >= 1', every: 2s}}
      - {ref: s2, type: transform, value: 1, run_if: context.n > 5}
    """,
)
ACTIONS_PER_RUN = 25
HEADS = """
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    ended_at_us, key, error_type, search_attributes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, updated_at_us = excluded.updated_at_us,
    ended_at_us = excluded.ended_at_us, error_type = excluded.error_type
"""
ROWS = """
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
VALUES ($1, $2, $3, $4, $5, $6)
"""


class Journal(msgspec.Struct, frozen=True):
    """A run's rows."""

    rows: Sequence[Transition]

    @property
    def run_id(self) -> str:
        return self.rows[0].run_id

    @property
    def state(self) -> RunState:
        state = RunState(run_id=self.run_id)
        for row in self.rows:
            fold_row(state, row.version, row.at_us, row.hash, events_of(row))
        return state


def random_journal(seed: int) -> Journal:
    """A run to which things have happened, the same for the same seed."""
    chance = random.Random(seed)
    played = Played(chance.choice(DEFINITIONS))
    for _ in range(ACTIONS_PER_RUN):
        played.act(chance.choice(ACTIONS), chance.randrange(12))
    return renamed(played.run.rows, seed)


def random_journals(count: int) -> list[Journal]:
    return [random_journal(seed) for seed in range(count)]


def renamed(rows: Iterable[Transition], number: int) -> Journal:
    """The same rows as those of a run of its own."""
    run_id = str(uuid.UUID(int=(0x0198F5D2_0000_7000_8000 << 48) + number))
    return Journal([msgspec.structs.replace(row, run_id=run_id) for row in rows])


def batch_of(head: Head, *rows: tuple[int, int, Sequence[AnyEvent]]) -> RowBatch:
    """Rows of one run, given as (version, time, events), as a page of the feed has them."""
    texts = [encode_events(events) for _, _, events in rows]
    columns = FeedColumns(
        eras=[0] * len(rows),
        transaction_ids=[1] * len(rows),
        positions=[version for version, _, _ in rows],
        run_ids=[head.run_id] * len(rows),
        versions=[version for version, _, _ in rows],
        at_us=[at_us for _, at_us, _ in rows],
        size_bytes=[len(text) for text in texts],
        events=b"[" + b",".join(texts) + b"]",
    )
    return row_batch(columns, {head.run_id: head})


def events_of(row: Transition) -> list[AnyEvent]:
    return decode_events(row.events, run_id=row.run_id, version=row.version)


async def write_row(connection: asyncpg.Connection, state: RunState, row: Transition) -> None:
    """Write the next row of a run as an engine would: with the head that goes with it."""
    fold_row(state, row.version, row.at_us, row.hash, events_of(row))
    await connection.execute(
        HEADS,
        state.run_id,
        state.tenant,
        state.definition,
        state.manifest_hash,
        state.status,
        state.started_at_us,
        row.at_us,
        state.ended_at_us or None,
        state.key,
        state.error.type if state.error is not None else None,
        msgspec.json.encode(state.search_attributes).decode(),
    )
    await connection.execute(
        ROWS, row.run_id, row.version, uuid.uuid4(), row.at_us, row.events.decode(), row.hash or b"\0"
    )


async def write_journals(connection: asyncpg.Connection, journals: Sequence[Journal]) -> None:
    """Write runs side by side: one row of each in turn."""
    states = {journal.run_id: RunState(run_id=journal.run_id) for journal in journals}
    for place in range(max(len(journal.rows) for journal in journals)):
        for journal in journals:
            if place < len(journal.rows):
                async with connection.transaction():
                    await write_row(connection, states[journal.run_id], journal.rows[place])


async def tables_of(connection: asyncpg.Connection, schema: str) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all tables of a model."""
    names = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename", schema)
    return {
        name: sorted(tuple(map(str, row)) for row in await connection.fetch(f'SELECT * FROM "{schema}"."{name}"'))
        for (name,) in names
    }


def expected_runs(journals: Sequence[Journal]) -> dict[str, tuple[object, ...]]:
    """Status, versions, steps, attempts, bytes and error message of each run."""
    found: dict[str, tuple[object, ...]] = {}
    for journal in journals:
        state = journal.state
        events = [event for row in journal.rows for event in events_of(row)]
        found[journal.run_id] = (
            state.status,
            state.version,
            sum(isinstance(event, NodeSettled) and event.status != "skipped" for event in events),
            sum(isinstance(event, AttemptDispatched) for event in events),
            sum(len(row.events) for row in journal.rows),
            None if state.error is None else state.error.message,
        )
    return found


def expected_flow(journals: Sequence[Journal]) -> dict[tuple[str, str, str], int]:
    """Counts by measure, step and target, as far as single events give them."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in _all_events(journals):
        if isinstance(event, RunStarted):
            counts["started", "", ""] += 1
        elif isinstance(event, NodeSettled):
            step = step_name(event.node)
            counts["settled", step, event.status] += 1
            counts.update(("taken", step, step_name(target)) for target in event.taken)
            counts.update(("untaken", step, step_name(target)) for target in event.untaken)
    return dict(counts)


def expected_ends(journals: Sequence[Journal]) -> dict[str, int]:
    """How often runs ended, by status."""
    counts: Counter[str] = Counter()
    for event in _all_events(journals):
        if isinstance(event, RunEnded):
            counts[event.status] += 1
        elif isinstance(event, RunContinued):
            counts["continued"] += 1
    return dict(counts)


def expected_steps(journals: Sequence[Journal]) -> dict[str, tuple[int, int, int]]:
    """By step: how often it failed for good, attempts that finished, attempts that failed."""
    counts: dict[str, list[int]] = {}
    for event in _all_events(journals):
        if isinstance(event, NodeSettled):
            counts.setdefault(step_name(event.node), [0, 0, 0])[0] += event.status == "failed"
        elif isinstance(event, AttemptFinished):
            of_step = counts.setdefault(step_name(event.node), [0, 0, 0])
            of_step[1] += 1
            of_step[2] += event.outcome == "failed"
    return {step: (failed, attempts, bad) for step, (failed, attempts, bad) in counts.items()}


def _all_events(journals: Sequence[Journal]) -> list[AnyEvent]:
    return [event for journal in journals for row in journal.rows for event in events_of(row)]
