"""`steps`: what became of each step of each definition, by the hour in which it settled.

Durations are kept as histograms with logarithmic buckets: bucket b holds what lies above 1.1^(b-1) and up to 1.1^b
microseconds, so that a percentile read from the middle of its bucket is right within 5 % at any length, and histograms
of hours can be added up.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import cast

import asyncpg
import msgspec

from ductor.journal.events import AttemptFinished, ErrorInfo, NodeSettled, RunContinued, RunEnded
from ductor.projections.model import Projection, RunRow
from ductor.projections.open_steps import BEGINNING, SCHEMA, OpenSteps, read_open_steps, write_open_steps
from ductor.projections.rows import step_name

HOUR_US = 3_600_000_000
BUCKET_BASE = 1.1
"""Upper end of a bucket by its lower one. The middle of a bucket is off by less than 5 %."""
_LOG_BASE = math.log(BUCKET_BASE)


HourKey = tuple[str, str, int]
"""Tenant, definition, beginning of the hour."""


class StepCounts(msgspec.Struct):
    """Counts of one step in one hour. Durations are those of settled steps that were not skipped."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cancelled: int = 0
    attempts: int = 0
    attempts_failed: int = 0
    attempt_us: int = 0
    duration_us: int = 0
    duration_us_max: int = 0


class FailureCounts(msgspec.Struct):
    """Failures of one type."""

    failed: int = 0
    attempts_failed: int = 0
    last_at_us: int = 0
    last_run_id: str = ""


class StepChange(msgspec.Struct):
    """What a batch of rows adds to one step in one hour: counts, failures by type, durations by bucket."""

    counts: StepCounts = msgspec.field(default_factory=StepCounts)
    failures: dict[str, FailureCounts] = msgspec.field(default_factory=lambda: defaultdict(FailureCounts))
    durations: dict[int, int] = msgspec.field(default_factory=lambda: defaultdict(int))


StepChanges = dict[HourKey, dict[str, StepChange]]
"""What a batch of rows adds, by hour and step."""


class StepsProjection(Projection):
    """See the module's docstring."""

    name = "steps"
    revision = 1
    schema = (
        SCHEMA
        + """
CREATE TABLE step_hour (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    hour_us bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed bigint NOT NULL,
    skipped bigint NOT NULL,
    cancelled bigint NOT NULL,
    attempts bigint NOT NULL,
    attempts_failed bigint NOT NULL,
    attempt_us bigint NOT NULL,
    duration_us bigint NOT NULL,
    duration_us_max bigint NOT NULL,
    PRIMARY KEY (tenant, definition, step, hour_us)
) WITH (fillfactor = 70);
CREATE TABLE step_failure (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    hour_us bigint NOT NULL,
    error_type text COLLATE "C" NOT NULL,
    failed bigint NOT NULL,
    attempts_failed bigint NOT NULL,
    last_at_us bigint NOT NULL,
    last_run_id uuid NOT NULL,
    PRIMARY KEY (tenant, definition, step, hour_us, error_type)
) WITH (fillfactor = 70);
CREATE TABLE step_duration (
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    step text COLLATE "C" NOT NULL,
    hour_us bigint NOT NULL,
    bucket integer NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (tenant, definition, step, hour_us, bucket)
) WITH (fillfactor = 70);
"""
    )
    views = {  # noqa: RUF012 - a constant of the class
        "report_step_statistics": """
SELECT s.tenant::text COLLATE "default" AS tenant, s.definition::text COLLATE "default" AS definition,
    s.step::text COLLATE "default" AS step, ductor.eec_time(s.hour_us) AS hour,
    s.succeeded + s.failed + s.skipped + s.cancelled AS settled, s.succeeded, s.failed, s.skipped, s.cancelled,
    s.attempts, s.attempts_failed, s.attempt_us / 1000 AS attempt_ms, s.duration_us / 1000 AS duration_ms,
    least(d.p50, s.duration_us_max / 1000.0::double precision) AS duration_ms_p50,
    least(d.p95, s.duration_us_max / 1000.0::double precision) AS duration_ms_p95,
    least(d.p99, s.duration_us_max / 1000.0::double precision) AS duration_ms_p99,
    CASE WHEN d.p50 IS NOT NULL THEN s.duration_us_max / 1000.0::double precision END AS duration_ms_max
FROM step_hour s CROSS JOIN LATERAL (
    SELECT min(middle_ms) FILTER (WHERE upto >= 0.50 * total) AS p50,
        min(middle_ms) FILTER (WHERE upto >= 0.95 * total) AS p95,
        min(middle_ms) FILTER (WHERE upto >= 0.99 * total) AS p99
    FROM (
        SELECT power(1.1::double precision, b.bucket - 0.5) / 1000 AS middle_ms,
            sum(b.count) OVER (ORDER BY b.bucket) AS upto, sum(b.count) OVER () AS total
        FROM step_duration b
        WHERE (b.tenant, b.definition, b.step, b.hour_us) = (s.tenant, s.definition, s.step, s.hour_us)
    ) AS counted
) AS d
""",
        "report_step_durations": """
SELECT tenant::text COLLATE "default" AS tenant, definition::text COLLATE "default" AS definition,
    step::text COLLATE "default" AS step, ductor.eec_time(hour_us) AS hour, bucket,
    power(1.1::double precision, bucket - 1) / 1000 AS from_ms,
    power(1.1::double precision, bucket) / 1000 AS to_ms, count
FROM step_duration
""",
        "report_step_failures": """
SELECT tenant::text COLLATE "default" AS tenant, definition::text COLLATE "default" AS definition,
    step::text COLLATE "default" AS step, ductor.eec_time(hour_us) AS hour,
    error_type::text COLLATE "default" AS error_type, failed, attempts_failed, last_run_id,
    ductor.eec_time(last_at_us) AS last_at
FROM step_failure
""",
    }

    async def apply_rows(self, rows: Sequence[RunRow], connection: asyncpg.Connection) -> None:
        """Add up the batch, and add it to what is there."""
        steps = await read_open_steps(connection, rows)
        changes = step_changes(rows, steps)
        await write_open_steps(connection, steps, rows)
        in_order = [
            ((tenant, definition, step, hour_us), change)
            for (tenant, definition, hour_us), by_step in changes.items()
            for step, change in by_step.items()
        ]
        in_order.sort(key=itemgetter(0))
        counts = [(*key, *msgspec.structs.astuple(one.counts)) for key, one in in_order]
        failures = [
            (*key, type, *msgspec.structs.astuple(failure))
            for key, one in in_order
            for type, failure in sorted(one.failures.items())
        ]
        durations = [(*key, bucket, n) for key, one in in_order for bucket, n in sorted(one.durations.items())]
        for statement, rows_to_add in ((_ADD_COUNTS, counts), (_ADD_FAILURES, failures), (_ADD_DURATIONS, durations)):
            if rows_to_add:
                await connection.execute(statement, *_columns(rows_to_add))


def step_changes(rows: Sequence[RunRow], steps: OpenSteps) -> StepChanges:
    """What the rows add. `steps` is changed: it holds what is open after them."""
    changes: StepChanges = defaultdict(lambda: defaultdict(StepChange))
    for row in rows:
        head, at_us = row.head, row.at_us
        run_id = head.run_id
        by_step = changes[head.tenant, head.definition, at_us - at_us % HOUR_US]
        error: ErrorInfo | None = None
        failed_node = ""
        for event in row.events:
            kind = type(event)  # compared and not asked by isinstance: this is where the time goes
            if kind in BEGINNING:
                steps.begin(run_id, event.node, at_us)  # type: ignore[union-attr]
            elif kind is AttemptFinished:
                finished = cast("AttemptFinished", event)
                if finished.error is not None:
                    error, failed_node = finished.error, finished.node
                _attempt_finished(by_step[step_name(finished.node)], finished, row)
            elif kind is NodeSettled:
                settled = cast("NodeSettled", event)
                # a worker step's error came with its last attempt
                of_attempt = error if failed_node == settled.node else None
                _settled(by_step[step_name(settled.node)], settled, row, steps.settle(run_id, settled.node), of_attempt)
            elif kind is RunEnded or kind is RunContinued:
                steps.end(run_id)
    return changes


def bucket_of(duration_us: int) -> int:
    """The histogram bucket of a duration: 0 up to a microsecond, else b with 1.1^(b-1) < duration <= 1.1^b."""
    return math.ceil(math.log(duration_us) / _LOG_BASE) if duration_us > 1 else 0


def _attempt_finished(change: StepChange, event: AttemptFinished, row: RunRow) -> None:
    counts = change.counts
    counts.attempts += 1
    if event.finished_at_us > event.started_at_us:
        counts.attempt_us += event.finished_at_us - event.started_at_us
    if event.outcome == "failed":
        counts.attempts_failed += 1
        failure = change.failures[_type_of(event.error)]
        failure.attempts_failed += 1
        failure.last_at_us, failure.last_run_id = row.at_us, row.head.run_id


def _settled(
    change: StepChange, event: NodeSettled, row: RunRow, since_us: int | None, of_attempt: ErrorInfo | None
) -> None:
    counts, status = change.counts, event.status
    if status == "skipped":
        counts.skipped += 1
        return
    if status == "succeeded":
        counts.succeeded += 1
    elif status == "failed":
        counts.failed += 1
        failure = change.failures[_type_of(event.error or of_attempt)]
        failure.failed += 1
        failure.last_at_us, failure.last_run_id = row.at_us, row.head.run_id
    else:
        counts.cancelled += 1
    # a step that the tick carries out at once has never been open
    duration_us = 0 if since_us is None or since_us > row.at_us else row.at_us - since_us
    counts.duration_us += duration_us
    counts.duration_us_max = max(counts.duration_us_max, duration_us)
    change.durations[bucket_of(duration_us)] += 1


def _type_of(error: ErrorInfo | None) -> str:
    return "" if error is None else error.type


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


_ADD_COUNTS = """
INSERT INTO step_hour AS s (tenant, definition, step, hour_us, succeeded, failed, skipped, cancelled, attempts,
    attempts_failed, attempt_us, duration_us, duration_us_max)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[])
ON CONFLICT (tenant, definition, step, hour_us) DO UPDATE SET
    succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
    skipped = s.skipped + excluded.skipped, cancelled = s.cancelled + excluded.cancelled,
    attempts = s.attempts + excluded.attempts, attempts_failed = s.attempts_failed + excluded.attempts_failed,
    attempt_us = s.attempt_us + excluded.attempt_us, duration_us = s.duration_us + excluded.duration_us,
    duration_us_max = greatest(s.duration_us_max, excluded.duration_us_max)
"""
_ADD_FAILURES = """
INSERT INTO step_failure AS s (tenant, definition, step, hour_us, error_type, failed, attempts_failed, last_at_us,
    last_run_id)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[],
    $8::bigint[], $9::uuid[])
ON CONFLICT (tenant, definition, step, hour_us, error_type) DO UPDATE SET
    failed = s.failed + excluded.failed, attempts_failed = s.attempts_failed + excluded.attempts_failed,
    last_at_us = excluded.last_at_us, last_run_id = excluded.last_run_id
"""
_ADD_DURATIONS = """
INSERT INTO step_duration AS s (tenant, definition, step, hour_us, bucket, count)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::integer[], $6::bigint[])
ON CONFLICT (tenant, definition, step, hour_us, bucket) DO UPDATE SET count = s.count + excluded.count
"""
