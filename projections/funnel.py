"""`funnel`: how runs of each version of a definition went through its graph.

Everything is a count of one measure: runs `started`, steps `entered` and `settled`, edges `taken` and `untaken`, runs
`ended` by the step that decided it. That is the step that failed, or else the last one that succeeded, in the row in
which the end was decided; where a control or a deadline decided it, no step did.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import cast

import asyncpg

from ductor.journal.events import Event, NodeSettled, RunClosing, RunContinued, RunEnded, RunStarted
from ductor.projections.model import Projection, RunRow
from ductor.projections.open_steps import BEGINNING, SCHEMA, OpenSteps, read_open_steps, write_open_steps
from ductor.projections.rows import step_name

VersionKey = tuple[str, str, str]
"""Tenant, definition, manifest hash."""
FlowKey = tuple[str, str, str]
"""Measure, step, target; the last two are empty where the measure has none."""
FlowChanges = dict[VersionKey, dict[FlowKey, int]]
"""What a batch of rows adds, by version of a definition."""

_ENDS: frozenset[type[Event]] = frozenset({RunEnded, RunContinued})


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

    async def apply_rows(self, rows: Sequence[RunRow], connection: asyncpg.Connection) -> None:
        """Add up the batch, and add it to what is there."""
        steps = await read_open_steps(connection, rows)
        ending = _ending_runs(rows)
        before: dict[str, str] = {}
        if ending:
            before = {row[0]: row[1] for row in await connection.fetch(_READ_CLOSING, ending)}
        closing = dict(before)
        changes = funnel_changes(rows, steps, closing)
        await write_open_steps(connection, steps, rows)
        await _write_closing(connection, before, closing)
        counts = sorted((*version, *key, count) for version, of in changes.items() for key, count in of.items())
        if counts:
            await connection.execute(_ADD, *(list(column) for column in zip(*counts, strict=True)))


def funnel_changes(rows: Sequence[RunRow], steps: OpenSteps, closing: dict[str, str]) -> FlowChanges:
    """What the rows add. `steps` and `closing` (the step that decided the end, by run) are changed to what holds after
    them."""
    changes: FlowChanges = defaultdict(lambda: defaultdict(int))
    for row in rows:
        head = row.head
        run_id, counts = head.run_id, changes[head.tenant, head.definition, head.manifest_hash]
        decisive, has_failed = "", False
        for event in row.events:
            kind = type(event)  # compared and not asked by isinstance: this is where the time goes
            if kind in BEGINNING:
                node = event.node  # type: ignore[union-attr]
                if steps.begin(run_id, node, row.at_us):
                    counts["entered", step_name(node), ""] += 1
            elif kind is NodeSettled:
                settled = cast("NodeSettled", event)
                step, status = step_name(settled.node), settled.status
                _settled(counts, step, settled, was_open=steps.settle(run_id, settled.node) is not None)
                if status == "failed" or (status == "succeeded" and not has_failed):
                    decisive, has_failed = step, status == "failed"
            elif kind is RunClosing:
                closing[run_id] = decisive
            elif kind in _ENDS:
                status_of_run = event.status if isinstance(event, RunEnded) else "continued"
                counts["ended", closing.pop(run_id, decisive), status_of_run] += 1
                steps.end(run_id)
            elif kind is RunStarted:
                counts["started", "", ""] += 1
    return changes


def _settled(counts: dict[FlowKey, int], step: str, event: NodeSettled, *, was_open: bool) -> None:
    status = event.status
    if not was_open and status in ("succeeded", "failed"):  # the tick has carried it out at once
        counts["entered", step, ""] += 1
    counts["settled", step, status] += 1
    for target in event.taken:
        counts["taken", step, step_name(target)] += 1
    for target in event.untaken:
        counts["untaken", step, step_name(target)] += 1


def _ending_runs(rows: Sequence[RunRow]) -> list[str]:
    """Runs that end in the batch, and may have begun to close before it."""
    found = {row.head.run_id: None for row in rows if row.version > 1 and type(row.events[-1]) in _ENDS}
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
