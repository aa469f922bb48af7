"""What the client answers, as tables. Times and durations keep their exact values."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ductor.journal.records import InboxEntry
from ductor.projections.reports import (
    FlowCount,
    HealthMeasure,
    StepFailures,
    StepStatistics,
    ThroughputPeriod,
    UsageDay,
)
from ductor.projections.search import FoundRun
from ductor.reports.table import Cell, Column, ColumnType, ReportTable

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Source(NamedTuple):
    """A column, and how its value is read."""

    column: Column
    read: Callable[[Any], Cell]


def moment(at_us: int | None) -> datetime | None:
    """A time in microseconds since the epoch, exactly."""
    return None if at_us is None else EPOCH + timedelta(microseconds=at_us)


def runs_table(runs: Iterable[FoundRun], *, is_cut: bool) -> ReportTable:
    """Runs, newest first."""
    return _table("runs", _RUNS, runs, is_cut=is_cut)


def steps_table(steps: Iterable[StepStatistics]) -> ReportTable:
    """What became of each step."""
    return _table("steps", _STEPS, steps)


def failures_table(failures: Iterable[StepFailures]) -> ReportTable:
    """Failures by step and type of error."""
    return _table("failures", _FAILURES, failures)


def usage_table(days: Iterable[UsageDay]) -> ReportTable:
    """What the tenant has used, by day."""
    return _table("usage", _USAGE, days)


def funnel_table(counts: Iterable[FlowCount]) -> ReportTable:
    """How runs went through the graph."""
    return _table("funnel", _FUNNEL, counts)


def inbox_table(entries: Iterable[InboxEntry], *, is_cut: bool) -> ReportTable:
    """What waits for people."""
    return _table("inbox", _INBOX, entries, is_cut=is_cut)


def health_table(measures: Iterable[HealthMeasure]) -> ReportTable:
    """The state of the whole."""
    return _table("health", _HEALTH, measures)


def throughput_table(periods: Iterable[ThroughputPeriod]) -> ReportTable:
    """Runs that started and ended, by period."""
    return _table("throughput", _THROUGHPUT, periods)


def _table(name: str, sources: Sequence[_Source], values: Iterable[object], *, is_cut: bool = False) -> ReportTable:
    rows = tuple(tuple(source.read(value) for source in sources) for value in values)
    return ReportTable(name=name, columns=tuple(source.column for source in sources), rows=rows, is_cut=is_cut)


def _texts(*names: str) -> list[_Source]:
    return _plain("text", *names)


def _integers(*names: str) -> list[_Source]:
    return _plain("integer", *names)


def _plain(kind: ColumnType, *names: str) -> list[_Source]:
    return [_Source(Column(name, kind), attrgetter(name)) for name in names]


def _timestamps(*names: str) -> list[_Source]:
    """Times of the fields that are called so with `_us` behind."""

    def source(name: str) -> _Source:
        read = attrgetter(f"{name}_us")
        return _Source(Column(name, "timestamp"), lambda value: moment(read(value)))

    return [source(name) for name in names]


def _json(*names: str) -> list[_Source]:
    return _plain("json", *names)


def _of_item(sources: Iterable[_Source]) -> list[_Source]:
    """The same of an inbox entry's item."""

    def source(one: _Source) -> _Source:
        return _Source(one.column, lambda entry: one.read(entry.item))

    return [source(one) for one in sources]


def _duration_ms(run: FoundRun) -> int | None:
    return None if run.ended_at_us is None else (run.ended_at_us - run.started_at_us) // 1_000


_RUNS: Final = [
    *_texts("run_id", "definition", "manifest_hash", "status"),
    *_timestamps("started_at", "updated_at", "ended_at"),
    _Source(Column("duration_ms", "integer"), _duration_ms),
    *_texts("key", "parent_run_id", "error_type", "error_message"),
    *_json("search_attributes"),
    *_integers("version", "steps", "attempts"),
]
_STEPS: Final = [
    *_texts("definition", "step"),
    *_integers("settled", "succeeded", "failed", "skipped", "cancelled", "attempts", "attempts_failed", "attempt_ms"),
    *_plain("real", "duration_ms_p50", "duration_ms_p95", "duration_ms_p99", "duration_ms_max"),
]
_FAILURES: Final = [
    *_texts("definition", "step", "error_type"),
    *_integers("failed", "attempts_failed"),
    *_texts("last_run_id"),
    *_timestamps("last_at"),
]
_USAGE: Final = [
    _Source(Column("day", "date"), lambda usage: date.fromisoformat(usage.day)),
    *_integers("runs_started", "runs_ended", "runs_completed", "runs_failed", "steps", "attempts"),
    *_plain("real", "attempt_seconds"),
    *_integers("journal_rows", "journal_bytes"),
]
_FUNNEL: Final = [*_texts("manifest_hash", "measure", "step", "target"), *_integers("count")]
_INBOX: Final = [
    *_texts("run_id", "definition"),
    _Source(Column("step", "text"), lambda entry: entry.item.node),
    *_of_item([*_texts("kind", "title", "status")]),
    _Source(Column("people", "json"), lambda entry: list(entry.item.people)),
    *_of_item(_timestamps("since", "due_at")),
]
_HEALTH: Final = [*_texts("measure", "subject"), *_integers("count"), *_timestamps("since"), *_texts("detail")]
_THROUGHPUT: Final = [
    *_timestamps("at"),
    *_integers("started", "ended", "completed", "failed", "cancelled", "terminated", "continued"),
]
