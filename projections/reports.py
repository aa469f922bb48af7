"""What the read models answer besides single runs: values, and how they are read."""

import math
from collections.abc import Mapping, Sequence

import asyncpg
import msgspec

from ductor.projections.errors import InvalidReportError
from ductor.projections.steps import BUCKET_BASE

MAX_REPORT_ROWS = 10_000
"""Rows of one report at most; ask for a shorter time or one definition where there are more."""
MIN_PERIOD_MS = 1_000
"""The shortest period that throughput is counted by."""


class StepStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one step over a time. Durations are in milliseconds, None where nothing was carried out.

    `duration_ms_p50`, `_p95` and `_p99` are right within 5 %, `duration_ms_max` is exact.
    """

    definition: str
    step: str
    settled: int
    succeeded: int
    failed: int
    skipped: int
    cancelled: int
    attempts: int
    attempts_failed: int
    attempt_ms: int
    duration_ms_p50: float | None
    duration_ms_p95: float | None
    duration_ms_p99: float | None
    duration_ms_max: float | None


class StepFailures(msgspec.Struct, frozen=True, kw_only=True):
    """Failures of one step by one type of error, over a time.

    Attributes:
        error_type: empty for an error without one.
        failed: steps that failed for good.
        attempts_failed: attempts that failed, retried or not.
        last_run_id: the run that failed last.
    """

    definition: str
    step: str
    error_type: str
    failed: int
    attempts_failed: int
    last_run_id: str
    last_at_us: int


class ThroughputPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that started and that ended in one period, which begins at `at_us`. A run that was redriven counts where it
    has ended last, by what it is now.
    """

    at_us: int
    started: int
    ended: int
    completed: int
    failed: int
    cancelled: int
    terminated: int
    continued: int


class UsageDay(msgspec.Struct, frozen=True, kw_only=True):
    """What the tenant used on one day (UTC, as `2026-01-31`)."""

    day: str
    runs_started: int
    runs_ended: int
    runs_completed: int
    runs_failed: int
    steps: int
    attempts: int
    attempt_seconds: float
    journal_rows: int
    journal_bytes: int


class FlowCount(msgspec.Struct, frozen=True):
    """One count of how runs went through the graph; see `ductor.report_funnel`."""

    manifest_hash: str
    measure: str
    step: str
    target: str
    count: int


class HealthMeasure(msgspec.Struct, frozen=True):
    """One measure of the whole; see `ductor.report_health`. `since_us` is None where there is nothing."""

    measure: str
    subject: str
    count: int
    since_us: int | None
    detail: str


def percentile_ms(histogram: Mapping[int, int], fraction: float) -> float | None:
    """A percentile of durations counted by bucket: the middle of the bucket that it falls into."""
    total = sum(histogram.values())
    seen = 0
    for bucket in sorted(histogram):
        seen += histogram[bucket]
        if seen >= fraction * total:
            return math.pow(BUCKET_BASE, bucket - 0.5) / 1_000
    return None


async def read_step_statistics(
    connection: asyncpg.Connection,
    schema: str,
    tenant: str,
    *,
    definition: str | None,
    since_us: int,
    until_us: int,
) -> list[StepStatistics]:
    """Steps in order of definition and name, hours added up."""
    arguments = (tenant, definition, since_us, until_us)
    histograms: dict[tuple[str, str], dict[int, int]] = {}
    for row in await connection.fetch(_DURATIONS.replace("{schema}", schema), *arguments):
        histograms.setdefault((row[0], row[1]), {})[row[2]] = row[3]
    rows = await connection.fetch(_STEPS.replace("{schema}", schema), *arguments, MAX_REPORT_ROWS)
    return [_statistics(tuple(row), histograms.get((row[0], row[1]), {})) for row in rows]


async def read_step_failures(
    connection: asyncpg.Connection,
    schema: str,
    tenant: str,
    *,
    definition: str | None,
    since_us: int,
    until_us: int,
) -> list[StepFailures]:
    """Failures, the most first, hours added up."""
    rows = await connection.fetch(
        _FAILURES.replace("{schema}", schema), tenant, definition, since_us, until_us, MAX_REPORT_ROWS
    )
    return [StepFailures(**dict(row)) for row in rows]


async def read_throughput(
    connection: asyncpg.Connection,
    schema: str,
    tenant: str,
    *,
    definition: str | None,
    since_us: int,
    until_us: int,
    period_ms: int,
) -> list[ThroughputPeriod]:
    """Every period from the one of `since_us` on that begins before `until_us`, also those in which nothing was.

    Raises InvalidReportError for a period that is too short.
    """
    period_us = period_ms * 1_000
    check_periods(since_us, until_us, period_ms)
    statement = _THROUGHPUT.replace("{schema}", schema)
    first_us = since_us - since_us % period_us
    rows = await connection.fetch(statement, tenant, definition, first_us, until_us, period_us)
    found = {row["at_us"]: ThroughputPeriod(**dict(row)) for row in rows}
    nothing = dict.fromkeys(_COUNTED, 0)
    return [
        found.get(at_us) or ThroughputPeriod(at_us=at_us, **nothing) for at_us in range(first_us, until_us, period_us)
    ]


def check_periods(since_us: int, until_us: int, period_ms: int) -> None:
    """Raise InvalidReportError for periods that are too short, or too many."""
    if period_ms < MIN_PERIOD_MS:
        raise InvalidReportError("throughput", f"a period takes {MIN_PERIOD_MS} ms at least, found {period_ms}")
    count = math.ceil((until_us - since_us) / (period_ms * 1_000))
    if count > MAX_REPORT_ROWS:
        reason = f"{count} periods of {period_ms} ms, the limit is {MAX_REPORT_ROWS}; ask for longer ones"
        raise InvalidReportError("throughput", reason)


async def read_usage(
    connection: asyncpg.Connection, schema: str, tenant: str, since_us: int, until_us: int
) -> list[UsageDay]:
    """Days in order."""
    rows = await connection.fetch(_USAGE.replace("{schema}", schema), tenant, since_us, until_us, MAX_REPORT_ROWS)
    return [UsageDay(**dict(row)) for row in rows]


async def read_funnel(
    connection: asyncpg.Connection, schema: str, tenant: str, definition: str, manifest_hash: str | None
) -> list[FlowCount]:
    """Counts of one definition, all its versions or one, in order of version, measure, step and target."""
    rows = await connection.fetch(
        _FUNNEL.replace("{schema}", schema), tenant, definition, manifest_hash, MAX_REPORT_ROWS
    )
    return [FlowCount(*row) for row in rows]


async def read_health(connection: asyncpg.Connection) -> list[HealthMeasure]:
    """The state of the whole now."""
    return [HealthMeasure(*row) for row in await connection.fetch(_HEALTH)]


def _statistics(row: Sequence[object], histogram: Mapping[int, int]) -> StepStatistics:
    definition, step, *counts, max_ms = row
    largest = max_ms if histogram else None

    def bounded(fraction: float) -> float | None:
        found = percentile_ms(histogram, fraction)
        return found if found is None or not isinstance(max_ms, float) else min(found, max_ms)

    names = ("succeeded", "failed", "skipped", "cancelled", "attempts", "attempts_failed", "attempt_ms")
    values: dict[str, object] = dict(zip(names, counts, strict=True))
    return msgspec.convert(
        {
            **values,
            "definition": definition,
            "step": step,
            "settled": sum(int(str(values[name])) for name in names[:4]),
            "duration_ms_p50": bounded(0.50),
            "duration_ms_p95": bounded(0.95),
            "duration_ms_p99": bounded(0.99),
            "duration_ms_max": largest,
        },
        StepStatistics,
    )


_STEPS = """
SELECT definition, step, sum(succeeded)::bigint, sum(failed)::bigint, sum(skipped)::bigint, sum(cancelled)::bigint,
    sum(attempts)::bigint, sum(attempts_failed)::bigint, (sum(attempt_us) / 1000)::bigint,
    max(duration_us_max) / 1000.0::double precision
FROM "{schema}".step_hour
WHERE tenant = $1 AND ($2::text IS NULL OR definition = $2) AND hour_us >= $3 AND hour_us < $4
GROUP BY definition, step ORDER BY definition, step LIMIT $5
"""
_DURATIONS = """
SELECT definition, step, bucket, sum(count)::bigint
FROM "{schema}".step_duration
WHERE tenant = $1 AND ($2::text IS NULL OR definition = $2) AND hour_us >= $3 AND hour_us < $4
GROUP BY definition, step, bucket
"""
_FAILURES = """
SELECT definition, step, error_type, sum(failed)::bigint AS failed, sum(attempts_failed)::bigint AS attempts_failed,
    ((array_agg(last_run_id ORDER BY last_at_us DESC, last_run_id))[1])::text AS last_run_id,
    max(last_at_us) AS last_at_us
FROM "{schema}".step_failure
WHERE tenant = $1 AND ($2::text IS NULL OR definition = $2) AND hour_us >= $3 AND hour_us < $4
GROUP BY definition, step, error_type
ORDER BY sum(failed) DESC, sum(attempts_failed) DESC, definition, step, error_type LIMIT $5
"""
_COUNTED = ("started", "ended", "completed", "failed", "cancelled", "terminated", "continued")
_THROUGHPUT = """
WITH counts AS (
    SELECT started_at_us - started_at_us % $5::bigint AS at_us, count(*) AS started, 0 AS ended, 0 AS completed,
        0 AS failed, 0 AS cancelled, 0 AS terminated, 0 AS continued
    FROM "{schema}".run
    WHERE tenant = $1 AND ($2::text IS NULL OR definition = $2) AND started_at_us >= $3 AND started_at_us < $4
    GROUP BY 1
    UNION ALL
    SELECT ended_at_us - ended_at_us % $5::bigint, 0, count(*), count(*) FILTER (WHERE status = 'completed'),
        count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'cancelled'),
        count(*) FILTER (WHERE status = 'terminated'), count(*) FILTER (WHERE status = 'continued')
    FROM "{schema}".run
    WHERE tenant = $1 AND ($2::text IS NULL OR definition = $2) AND ended_at_us >= $3 AND ended_at_us < $4
    GROUP BY 1
)
SELECT at_us, sum(started)::bigint AS started, sum(ended)::bigint AS ended, sum(completed)::bigint AS completed,
    sum(failed)::bigint AS failed, sum(cancelled)::bigint AS cancelled, sum(terminated)::bigint AS terminated,
    sum(continued)::bigint AS continued
FROM counts GROUP BY at_us
"""
_USAGE = """
SELECT to_char(ductor.eec_time(day_us) AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, runs_started, runs_ended,
    runs_completed, runs_failed, steps, attempts, attempt_us / 1000000.0::double precision AS attempt_seconds,
    journal_rows, journal_bytes
FROM "{schema}".usage_day WHERE tenant = $1 AND day_us >= $2 AND day_us < $3 ORDER BY day_us LIMIT $4
"""
_FUNNEL = """
SELECT manifest_hash, measure, step, target, count FROM "{schema}".flow
WHERE tenant = $1 AND definition = $2 AND ($3::text IS NULL OR manifest_hash = $3)
ORDER BY manifest_hash, measure, step, target LIMIT $4
"""
_HEALTH = """
SELECT measure, subject, count, (extract(epoch FROM since) * 1000000)::bigint, detail
FROM ductor.report_health ORDER BY measure, subject
"""
