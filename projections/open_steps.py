"""Since when each step of each run works or waits: what is needed to know how long it took, and that it began once.

Most steps begin and settle within one batch of rows and never touch the table. `keys_of` tells which ones a batch has
to read, `step_spans` what the batch makes of them, and what is open afterwards is written.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import asyncpg
import msgspec

from ductor.journal.events import (
    AttemptDispatched,
    ChildStarted,
    NodeParked,
    NodeSettled,
    RunContinued,
    RunEnded,
    ScatterStarted,
)
from ductor.projections.outlines import OUTLINES, SettledOutline
from ductor.projections.rows import step_name
from ductor.projections.tally import ScopedStep

if TYPE_CHECKING:
    from ductor.projections.batch import RowBatch

SCHEMA = """
CREATE TABLE open_step (
    run_id uuid NOT NULL,
    step text COLLATE "C" NOT NULL,
    since_us bigint NOT NULL,
    PRIMARY KEY (run_id, step)
);
"""
_READ = """
SELECT o.run_id::text, o.step, o.since_us FROM unnest($1::uuid[], $2::text[]) AS k (run_id, step)
JOIN open_step o ON o.run_id = k.run_id AND o.step = k.step
"""
_ADD = """
INSERT INTO open_step (run_id, step, since_us) SELECT * FROM unnest($1::uuid[], $2::text[], $3::bigint[])
ON CONFLICT (run_id, step) DO UPDATE SET since_us = excluded.since_us
"""
_REMOVE = """
WITH of_ended_runs AS (DELETE FROM open_step WHERE run_id = ANY ($3::uuid[]))
DELETE FROM open_step o USING unnest($1::uuid[], $2::text[]) AS k (run_id, step)
WHERE o.run_id = k.run_id AND o.step = k.step
"""

_BEGINNING = frozenset(OUTLINES[kind] for kind in (AttemptDispatched, NodeParked, ChildStarted, ScatterStarted))
_SETTLED = OUTLINES[NodeSettled]
_ABOUT_OPEN = _BEGINNING | {_SETTLED}
_ENDS = frozenset(OUTLINES[kind] for kind in (RunEnded, RunContinued))

StepKey = tuple[str, str]
"""Run id, step."""


class StepSpans(msgspec.Struct):
    """What a batch makes of steps that are open. Scopes are named by their numbers in the batch's tally.

    Attributes:
        entered: how many steps began to work or wait, or were carried out at once, by scope and step.
        durations_us: how long steps took that settled and were not skipped, by scope and step.
        failed: what settled as failed, with the number of its row.
        added: what is open after the batch and was not before, by key.
        removed: what was open before it and is not after it.
        ended_runs: runs that ended in it, and may have left open what was open before it.
    """

    entered: dict[ScopedStep, int]
    durations_us: dict[ScopedStep, list[int]]
    failed: list[tuple[int, SettledOutline]]
    added: list[tuple[str, str, int]]
    removed: list[StepKey]
    ended_runs: list[str]


def step_spans(batch: "RowBatch", known: Mapping[StepKey, int]) -> StepSpans:
    """What a batch makes of the steps that were open before it (`known`, as far as it is about them)."""
    open_now: dict[str, dict[str, int]] = {}
    for (run_id, step), since_us in known.items():
        open_now.setdefault(run_id, {})[step] = since_us
    spans = StepSpans(defaultdict(int), defaultdict(list), [], [], [], [])
    started, ended = set[str](), set[str]()
    columns, scope_of_row = batch.columns, batch.tally.scope_of_row
    for row, (run_id, at_us, events) in enumerate(zip(columns.run_ids, columns.at_us, batch.outlines, strict=True)):
        of_run = open_now.get(run_id)
        if of_run is None:
            of_run = open_now[run_id] = {}
            if columns.versions[row] == 1:
                started.add(run_id)
        for event in events:
            kind = type(event)  # compared and not asked by isinstance: this is where the time goes
            if kind is _SETTLED:
                end: SettledOutline = event  # type: ignore[assignment]
                _settled(spans, (scope_of_row[row], step_name(end.node)), end, at_us, of_run.pop(end.node, None))
                if end.status == "failed":
                    spans.failed.append((row, end))
            elif kind in _BEGINNING:
                node = event.node  # type: ignore[attr-defined]
                if node not in of_run:
                    of_run[node] = at_us
                    spans.entered[scope_of_row[row], step_name(node)] += 1
            elif kind in _ENDS:
                of_run.clear()
                ended.add(run_id)
    spans.added = sorted(
        (run_id, step, since_us)
        for run_id, of_run in open_now.items()
        for step, since_us in of_run.items()
        if run_id in ended or known.get((run_id, step)) != since_us
    )
    spans.removed = sorted(key for key in known if key[1] not in open_now[key[0]] and key[0] not in ended)
    spans.ended_runs = sorted(ended - started)
    return spans


def _settled(spans: StepSpans, step: ScopedStep, end: SettledOutline, at_us: int, since_us: int | None) -> None:
    if end.status == "skipped":
        return
    if since_us is not None:
        spans.durations_us[step].append(at_us - since_us if at_us > since_us else 0)
    else:  # the tick has carried it out at once, or it was withdrawn before it began
        spans.durations_us[step].append(0)
        if end.status != "cancelled":
            spans.entered[step] += 1


def keys_of(batch: "RowBatch") -> list[StepKey]:
    """The steps about which a batch has to know whether they were open before it."""
    started: set[str] = set()
    keys: dict[StepKey, None] = {}
    for run_id, version, events in zip(batch.columns.run_ids, batch.columns.versions, batch.outlines, strict=True):
        if version == 1:
            started.add(run_id)
        elif run_id not in started:
            for event in events:
                if type(event) in _ABOUT_OPEN:
                    keys[run_id, event.node] = None  # type: ignore[attr-defined]
    return list(keys)


async def read_open_steps(connection: asyncpg.Connection, batch: "RowBatch") -> dict[StepKey, int]:
    """Since when those steps were open that a batch is about."""
    keys = batch.step_keys
    if not keys:
        return {}
    found = await connection.fetch(_READ, [key[0] for key in keys], [key[1] for key in keys])
    return {(row[0], row[1]): row[2] for row in found}


async def write_open_steps(connection: asyncpg.Connection, spans: StepSpans) -> None:
    """Keep what is open after the batch."""
    removed, added = spans.removed, spans.added
    if removed or spans.ended_runs:
        await connection.execute(_REMOVE, [key[0] for key in removed], [key[1] for key in removed], spans.ended_runs)
    if added:
        await connection.execute(_ADD, *(list(column) for column in zip(*added, strict=True)))
