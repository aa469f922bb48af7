"""`funnel`: how runs of each version of a definition went through its graph.

Everything is a count of one measure: runs `started`, steps `entered` and `settled`, edges `taken` and `untaken`, runs
`ended` by the step that decided it. That is the step that failed, or else the last one that succeeded, in the row in
which the end was decided; where a control or a deadline decided it, no step did.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import asyncpg

from ductor.journal.events import NodeSettled, RunClosing, RunContinued, RunEnded, RunStarted
from ductor.projections.model import Projection, RunRow
from ductor.projections.open_steps import BEGINNING, SCHEMA, OpenSteps, read_open_steps, write_open_steps
from ductor.projections.rows import step_name


class FlowKey(NamedTuple):
    """What is counted. `step` and `target` are empty where the measure has none."""

    tenant: str
    definition: str
    manifest_hash: str
    measure: str
    step: str
    target: str


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
        if changes:
            counts = [(*key, count) for key, count in sorted(changes.items())]
            await connection.execute(_ADD, *(list(column) for column in zip(*counts, strict=True)))


def funnel_changes(rows: Sequence[RunRow], steps: OpenSteps, closing: dict[str, str]) -> dict[FlowKey, int]:
    """What the rows add. `steps` and `closing` (the step that decided the end, by run) are changed to what holds after
    them."""
    changes: dict[FlowKey, int] = defaultdict(int)
    for row in rows:
        run_id, version = row.head.run_id, (row.head.tenant, row.head.definition, row.head.manifest_hash)
        decisive, has_failed = "", False
        for event in row.events:
            if isinstance(event, BEGINNING):
                if steps.begin(run_id, event.node, row.at_us):
                    changes[FlowKey(*version, "entered", step_name(event.node), "")] += 1
            elif isinstance(event, NodeSettled):
                step = step_name(event.node)
                if steps.settle(run_id, event.node) is None and event.status in ("succeeded", "failed"):
                    changes[FlowKey(*version, "entered", step, "")] += 1
                changes[FlowKey(*version, "settled", step, event.status)] += 1
                for measure, target in _edges(event):
                    changes[FlowKey(*version, measure, step, step_name(target))] += 1
                if event.status == "failed" or (event.status == "succeeded" and not has_failed):
                    decisive, has_failed = step, event.status == "failed"
            elif isinstance(event, RunClosing):
                closing[run_id] = decisive
            elif isinstance(event, RunEnded | RunContinued):
                status = event.status if isinstance(event, RunEnded) else "continued"
                changes[FlowKey(*version, "ended", closing.pop(run_id, decisive), status)] += 1
                steps.end(run_id)
            elif isinstance(event, RunStarted):
                changes[FlowKey(*version, "started", "", "")] += 1
    return changes


def _edges(event: NodeSettled) -> Iterator[tuple[str, str]]:
    for target in event.taken:
        yield "taken", target
    for target in event.untaken:
        yield "untaken", target


def _ending_runs(rows: Sequence[RunRow]) -> list[str]:
    """Runs that end in the batch, and may have begun to close before it."""
    found: dict[str, None] = {}
    for row in rows:
        if row.version > 1 and any(isinstance(event, RunEnded | RunContinued) for event in row.events):
            found[row.head.run_id] = None
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
