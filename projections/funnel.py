"""`funnel`: how runs of each version of a definition went through its graph.

Everything is a count of one measure: runs `started`, steps `entered` and `settled`, edges `taken` and `untaken`, runs
`ended` by the step that decided it. That is the step that failed, or else the last one that succeeded, in the row in
which the end was decided; where a control or a deadline decided it, no step did.
"""

from collections import defaultdict
from collections.abc import Mapping

import asyncpg

from ductor.projections.batch import RowBatch
from ductor.projections.model import Projection
from ductor.projections.open_steps import SCHEMA, StepSpans, read_open_steps, write_open_steps
from ductor.projections.outlines import (
    ClosingOutline,
    ContinuedOutline,
    EndedOutline,
    SettledOutline,
    StartedOutline,
)
from ductor.projections.rows import step_name

VersionKey = tuple[str, str, str]
"""Tenant, definition, manifest hash."""
FlowKey = tuple[str, str, str]
"""Measure, step, target; the last two are empty where the measure has none."""
FlowChanges = dict[VersionKey, dict[FlowKey, int]]
"""What a batch of rows adds, by version of a definition."""


class FunnelProjection(Projection):
    """See the module's docstring."""

    name = "funnel"
    revision = 1
    schema = (
        SCHEMA
        + """
CREATE TABLE closing_run (
    run_id uuid PRIMARY KEY,
    step text NOT NULL
);
CREATE TABLE flow (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    manifest_hash text COLLATE "C" NOT NULL,
    measure text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (tenant, definition, manifest_hash, measure, step, target)
) WITH (fillfactor = 70);
"""
    )
    views = {  # noqa: RUF012 - a constant of the class
        "report_funnel": """
SELECT tenant::text COLLATE "default" AS tenant, definition::text COLLATE "default" AS definition,
    manifest_hash::text COLLATE "default" AS manifest_hash, measure::text COLLATE "default" AS measure,
    step::text COLLATE "default" AS step, target::text COLLATE "default" AS target, count
FROM flow
"""
    }

    async def apply_batch(self, batch: RowBatch, connection: asyncpg.Connection) -> None:
        """Add up the batch, and add it to what is there."""
        spans = batch.spans(await read_open_steps(connection, batch))
        ending = _ending_runs(batch)
        before: dict[str, str] = {}
        if ending:
            before = {row[0]: row[1] for row in await connection.fetch(_READ_CLOSING, ending)}
        closing = dict(before)
        changes = funnel_changes(batch, spans, closing)
        await write_open_steps(connection, spans)
        await _write_closing(connection, before, closing)
        counts = sorted((*version, *key, count) for version, of in changes.items() for key, count in of.items())
        if counts:
            await connection.execute(_ADD, *(list(column) for column in zip(*counts, strict=True)))


def funnel_changes(batch: RowBatch, spans: StepSpans, closing: dict[str, str]) -> FlowChanges:
    """What a batch adds. `closing` (the step that decided the end, by run) is changed to what holds after it."""
    changes: FlowChanges = defaultdict(lambda: defaultdict(int))
    tally = batch.tally
    counts_of = [changes[one.tenant, one.definition, one.manifest_hash] for one in tally.scopes]
    for (scope, step), count in spans.entered.items():
        counts_of[scope]["entered", step, ""] += count
    for (scope, step, status, taken, untaken), count in tally.settled.items():
        counts = counts_of[scope]
        counts["settled", step, status] += count
        for target in taken:
            counts["taken", step, step_name(target)] += count
        for target in untaken:
            counts["untaken", step, step_name(target)] += count
    for row, event in tally.about_runs:
        run_id, counts = batch.columns.run_ids[row], counts_of[tally.scope_of_row[row]]
        if isinstance(event, StartedOutline):
            counts["started", "", ""] += 1
        elif isinstance(event, ClosingOutline):
            closing[run_id] = _decisive(batch, row, event)
        elif isinstance(event, EndedOutline | ContinuedOutline):
            status_of_run = event.status if isinstance(event, EndedOutline) else "continued"
            decisive = closing.pop(run_id) if run_id in closing else _decisive(batch, row, event)
            counts["ended", decisive, status_of_run] += 1
    return changes


def _decisive(batch: RowBatch, row: int, end: ClosingOutline | EndedOutline | ContinuedOutline) -> str:
    """The step that failed, or else the last one that succeeded, in a row before the event that ends the run."""
    decisive, has_failed = "", False
    for event in batch.outlines[row]:
        if event is end:
            break
        if isinstance(event, SettledOutline) and (
            event.status == "failed" or (event.status == "succeeded" and not has_failed)
        ):
            decisive, has_failed = step_name(event.node), event.status == "failed"
    return decisive


def _ending_runs(batch: RowBatch) -> list[str]:
    """Runs that end in the batch, and may have begun to close before it."""
    started: set[str] = set()
    found: dict[str, None] = {}
    for row, event in batch.tally.about_runs:
        run_id = batch.columns.run_ids[row]
        if isinstance(event, StartedOutline):
            started.add(run_id)
        elif isinstance(event, EndedOutline | ContinuedOutline) and run_id not in started:
            found[run_id] = None
    return list(found)


async def _write_closing(connection: asyncpg.Connection, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    gone = sorted(run_id for run_id in before if run_id not in after)
    new = sorted((run_id, step) for run_id, step in after.items() if before.get(run_id) != step)
    if gone:
        await connection.execute("DELETE FROM closing_run WHERE run_id = ANY ($1::uuid[])", gone)
    if new:
        await connection.execute(_ADD_CLOSING, [one[0] for one in new], [one[1] for one in new])


_READ_CLOSING = "SELECT run_id::text, step FROM closing_run WHERE run_id = ANY ($1::uuid[])"
_ADD_CLOSING = """
INSERT INTO closing_run (run_id, step) SELECT * FROM unnest($1::uuid[], $2::text[])
ON CONFLICT (run_id) DO UPDATE SET step = excluded.step
"""
_ADD = """
INSERT INTO flow AS f (tenant, definition, manifest_hash, measure, step, target, count)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
ON CONFLICT (tenant, definition, manifest_hash, measure, step, target) DO UPDATE SET count = f.count + excluded.count
"""
