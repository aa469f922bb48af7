"""`steps`: what became of each step of each definition, by the hour in which it settled.

Durations are kept as histograms with logarithmic buckets: bucket b holds what lies above 1.1^(b-1) and up to 1.1^b
microseconds, so that a percentile read from the middle of its bucket is right within 5 % at any length, and histograms
of hours can be added up.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from operator import itemgetter

import asyncpg
import msgspec

from ductor.journal.events import ErrorInfo
from ductor.projections.batch import RowBatch
from ductor.projections.model import Projection
from ductor.projections.open_steps import SCHEMA, StepSpans, read_open_steps, write_open_steps
from ductor.projections.outlines import AttemptOutline, SettledOutline
from ductor.projections.rows import step_name

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

    async def apply_batch(self, batch: RowBatch, connection: asyncpg.Connection) -> None:
        """Add up the batch, and add it to what is there."""
        spans = batch.spans(await read_open_steps(connection, batch))
        changes = step_changes(batch, spans)
        await write_open_steps(connection, spans)
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


def step_changes(batch: RowBatch, spans: StepSpans) -> StepChanges:
    """What a batch adds."""
    changes: StepChanges = defaultdict(lambda: defaultdict(StepChange))
    tally, times_us = batch.tally, batch.columns.at_us
    by_step_of = [changes[one.tenant, one.definition, one.hour_us] for one in tally.scopes]
    for (scope, step), attempts_us in tally.attempts_us.items():
        counts = by_step_of[scope][step].counts
        counts.attempts += len(attempts_us)
        counts.attempt_us += sum(attempts_us)
    for (scope, step, status, _, _), count in tally.settled.items():
        _count(by_step_of[scope][step].counts, status, count)
    for (scope, step), durations_us in spans.durations_us.items():
        _took(by_step_of[scope][step], durations_us)
    for row, event in _failures(batch, spans):
        change = by_step_of[tally.scope_of_row[row]][step_name(event.node)]
        if isinstance(event, AttemptOutline):
            change.counts.attempts_failed += 1
            failure = change.failures[_type_of(event.error)]
            failure.attempts_failed += 1
        else:
            failure = change.failures[_type_of(event.error or _error_of_attempt(batch, row, event))]
            failure.failed += 1
        failure.last_at_us, failure.last_run_id = times_us[row], batch.columns.run_ids[row]
    return changes


def bucket_of(duration_us: int) -> int:
    """The histogram bucket of a duration: 0 up to a microsecond, else b with 1.1^(b-1) < duration <= 1.1^b."""
    return math.ceil(math.log(duration_us) / _LOG_BASE) if duration_us > 1 else 0


def _count(counts: StepCounts, status: str, count: int) -> None:
    if status == "succeeded":
        counts.succeeded += count
    elif status == "failed":
        counts.failed += count
    elif status == "skipped":
        counts.skipped += count
    else:
        counts.cancelled += count


def _took(change: StepChange, durations_us: Sequence[int]) -> None:
    counts = change.counts
    counts.duration_us += sum(durations_us)
    counts.duration_us_max = max(counts.duration_us_max, *durations_us)
    for duration_us, count in Counter(durations_us).items():
        change.durations[bucket_of(duration_us)] += count


def _failures(batch: RowBatch, spans: StepSpans) -> list[tuple[int, AttemptOutline | SettledOutline]]:
    """Attempts and steps that failed, by row, in the order of rows."""
    failures: list[tuple[int, AttemptOutline | SettledOutline]] = [*batch.tally.failed_attempts, *spans.failed]
    failures.sort(key=itemgetter(0))
    return failures


def _error_of_attempt(batch: RowBatch, row: int, end: SettledOutline) -> ErrorInfo | None:
    """A worker step's error came with its last attempt, in the same row."""
    error: ErrorInfo | None = None
    for event in batch.outlines[row]:
        if event is end:
            break
        if isinstance(event, AttemptOutline) and event.error is not None:
            error = event.error if event.node == end.node else None
    return error


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
