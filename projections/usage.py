"""`usage`: what each tenant has used on each day (UTC)."""

from collections import Counter, defaultdict

import asyncpg
import msgspec

from ductor.projections.batch import RowBatch
from ductor.projections.model import Projection
from ductor.projections.outlines import ContinuedOutline, EndedOutline, StartedOutline
from ductor.projections.tally import AboutRun

DAY_US = 24 * 3_600_000_000

DayKey = tuple[str, int]
"""Tenant, beginning of the day."""


class UsageCounts(msgspec.Struct):
    """What one tenant has used on one day. Bytes are those of the events' JSON text."""

    runs_started: int = 0
    runs_ended: int = 0
    runs_completed: int = 0
    runs_failed: int = 0
    steps: int = 0
    attempts: int = 0
    attempt_us: int = 0
    journal_rows: int = 0
    journal_bytes: int = 0


class UsageProjection(Projection):
    """See the module's docstring."""

    name = "usage"
    revision = 1
    schema = """
CREATE TABLE usage_day (
    tenant text COLLATE "C" NOT NULL,
    day_us bigint NOT NULL,
    runs_started bigint NOT NULL,
    runs_ended bigint NOT NULL,
    runs_completed bigint NOT NULL,
    runs_failed bigint NOT NULL,
    steps bigint NOT NULL,
    attempts bigint NOT NULL,
    attempt_us bigint NOT NULL,
    journal_rows bigint NOT NULL,
    journal_bytes bigint NOT NULL,
    PRIMARY KEY (tenant, day_us)
) WITH (fillfactor = 70);
"""
    views = {  # noqa: RUF012 - a constant of the class
        "report_usage": """
SELECT tenant::text COLLATE "default" AS tenant, (ductor.eec_time(day_us) AT TIME ZONE 'UTC')::date AS day,
    runs_started, runs_ended, runs_completed, runs_failed, steps, attempts,
    attempt_us / 1000000.0::double precision AS attempt_seconds, journal_rows, journal_bytes
FROM usage_day
"""
    }

    async def apply_batch(self, batch: RowBatch, connection: asyncpg.Connection) -> None:
        """Add up the batch, and add it to what is there."""
        changes = usage_changes(batch)
        if changes:
            counts = [(*key, *msgspec.structs.astuple(one)) for key, one in sorted(changes.items())]
            await connection.execute(_ADD, *(list(column) for column in zip(*counts, strict=True)))


def usage_changes(batch: RowBatch) -> dict[DayKey, UsageCounts]:
    """What a batch adds, by tenant and day."""
    changes: dict[DayKey, UsageCounts] = defaultdict(UsageCounts)
    tally = batch.tally
    counts_of = [changes[one.tenant, one.hour_us - one.hour_us % DAY_US] for one in tally.scopes]
    for scope, rows in Counter(tally.scope_of_row).items():
        counts_of[scope].journal_rows += rows
    for scope, size_bytes in zip(tally.scope_of_row, batch.columns.size_bytes, strict=True):
        counts_of[scope].journal_bytes += size_bytes
    for (scope, _, status, _, _), steps in tally.settled.items():
        counts_of[scope].steps += steps if status != "skipped" else 0
    for (scope, _), attempts_us in tally.attempts_us.items():
        counts_of[scope].attempts += len(attempts_us)
        counts_of[scope].attempt_us += sum(attempts_us)
    for row, event in tally.about_runs:
        _about_the_run(counts_of[tally.scope_of_row[row]], event)
    return changes


def _about_the_run(counts: UsageCounts, event: AboutRun) -> None:
    if isinstance(event, StartedOutline):
        counts.runs_started += 1
    elif isinstance(event, EndedOutline):
        counts.runs_ended += 1
        counts.runs_completed += event.status == "completed"
        counts.runs_failed += event.status == "failed"
    elif isinstance(event, ContinuedOutline):
        counts.runs_ended += 1


_ADD = """
INSERT INTO usage_day AS u (tenant, day_us, runs_started, runs_ended, runs_completed, runs_failed, steps, attempts,
    attempt_us, journal_rows, journal_bytes)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
ON CONFLICT (tenant, day_us) DO UPDATE SET
    runs_started = u.runs_started + excluded.runs_started, runs_ended = u.runs_ended + excluded.runs_ended,
    runs_completed = u.runs_completed + excluded.runs_completed, runs_failed = u.runs_failed + excluded.runs_failed,
    steps = u.steps + excluded.steps, attempts = u.attempts + excluded.attempts,
    attempt_us = u.attempt_us + excluded.attempt_us, journal_rows = u.journal_rows + excluded.journal_rows,
    journal_bytes = u.journal_bytes + excluded.journal_bytes
"""
