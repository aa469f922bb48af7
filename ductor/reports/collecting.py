"""Reports by name: what is asked of the client for each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from ductor.journal.records import InboxEntry
from ductor.projections.errors import InvalidReportError
from ductor.projections.search import MAX_PAGE_RUNS, FoundRun, RunSearch
from ductor.reports import tables
from ductor.reports.table import ReportTable

if TYPE_CHECKING:
    from ductor.read_models import ReadModelClient

ReportName = Literal["runs", "steps", "failures", "usage", "funnel", "inbox", "health", "throughput"]
REPORTS: Final[tuple[ReportName, ...]] = get_args(ReportName)
MAX_TABLE_ROWS: Final = 100_000
"""Runs or inbox entries of one report at most; the SQL views have no such limit."""
INBOX_PAGE: Final = 1_000
MINUTE_MS: Final = 60_000
DAY_MS: Final = 24 * 60 * MINUTE_MS
PERIODS_MS: Final = (MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, 60 * MINUTE_MS, 6 * 60 * MINUTE_MS, DAY_MS)
"""What throughput is counted by where nothing is said: the first that gives `PERIODS_WANTED` at most, else days."""
PERIODS_WANTED: Final = 96


class ReportScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a report is about.

    Attributes:
        definition: only this one; a funnel needs it.
        since_us, until_us: from the first on, before the second, in microseconds since the epoch: when runs started,
            whole hours of steps and failures, whole days of usage. Throughput without them is that of the last day;
            funnel, inbox and health know no time.
        limit: rows of `runs` and `inbox` at most.
        period_ms: what throughput is counted by.
        manifest_hash: only this version, of a funnel.
    """

    definition: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    limit: int = 1_000
    period_ms: int | None = None
    manifest_hash: str | None = None


async def collect(client: "ReadModelClient", name: ReportName, scope: ReportScope) -> ReportTable:
    """Make a report.

    Raises:
        InvalidReportError: there is none of this name, or what it is to be about does not fit it.
    """
    if not 1 <= scope.limit <= MAX_TABLE_ROWS:
        raise InvalidReportError(name, f"limit: from 1 to {MAX_TABLE_ROWS}, found {scope.limit}")
    if name == "runs":
        runs, is_cut = await _runs(client, scope)
        return tables.runs_table(runs, is_cut=is_cut)
    if name == "inbox":
        entries, is_cut = await _inbox(client, scope)
        return tables.inbox_table(entries, is_cut=is_cut)
    if name not in REPORTS:
        raise InvalidReportError(name, f"there is none of this name; there are {', '.join(REPORTS)}")
    return await _counted(client, name, scope)


async def _counted(client: "ReadModelClient", name: ReportName, scope: ReportScope) -> ReportTable:
    """The reports that are counts of many runs."""
    definition, since_us, until_us = scope.definition, scope.since_us, scope.until_us
    match name:
        case "steps":
            steps = await client.step_statistics(definition=definition, since_us=since_us, until_us=until_us)
            return tables.steps_table(steps)
        case "failures":
            failures = await client.step_failures(definition=definition, since_us=since_us, until_us=until_us)
            return tables.failures_table(failures)
        case "usage":
            return tables.usage_table(await client.usage(since_us=since_us, until_us=until_us))
        case "funnel":
            if definition is None:
                raise InvalidReportError(name, "it is about one definition; say which")
            return tables.funnel_table(await client.funnel(definition, manifest_hash=scope.manifest_hash))
        case "throughput":
            since, until = throughput_times(since_us, until_us, await client.engine.store.now_us())
            period_ms = scope.period_ms or fitting_period_ms(since, until)
            periods = await client.throughput(
                definition=definition, since_us=since, until_us=until, period_ms=period_ms
            )
            return tables.throughput_table(periods)
        case _:
            return tables.health_table(await client.health_report())


def throughput_times(since_us: int | None, until_us: int | None, now_us: int) -> tuple[int, int]:
    """From when until when throughput is counted. Raises InvalidReportError where that is no time."""
    until = now_us + 1 if until_us is None else until_us
    since = until - DAY_MS * 1_000 if since_us is None else since_us
    if since >= until:
        raise InvalidReportError("throughput", "its time ends before it begins")
    return since, until


def fitting_period_ms(since_us: int, until_us: int) -> int:
    """The shortest of `PERIODS_MS` that does not cut the time into too many pieces."""
    span_ms = (until_us - since_us) / 1_000
    return next((period_ms for period_ms in PERIODS_MS if span_ms <= PERIODS_WANTED * period_ms), DAY_MS)


async def _runs(client: "ReadModelClient", scope: ReportScope) -> tuple[list[FoundRun], bool]:
    found: list[FoundRun] = []
    after: str | None = None
    while len(found) < scope.limit:
        page = await client.search_runs(
            RunSearch(
                definition=scope.definition,
                shows_continued=True,
                started_after_us=scope.since_us,
                started_before_us=scope.until_us,
                after=after,
                limit=min(MAX_PAGE_RUNS, scope.limit - len(found)),
            )
        )
        found += page.runs
        after = page.next
        if after is None:
            break
    return found, after is not None


async def _inbox(client: "ReadModelClient", scope: ReportScope) -> tuple[list[InboxEntry], bool]:
    """Entries of the definition in order of run and step, filtered here: an inbox is made for people."""
    found: list[InboxEntry] = []
    after: tuple[str, str] | None = None
    while len(found) <= scope.limit:
        page: Sequence[InboxEntry] = await client.engine.inbox(
            tenant=client.tenant, person=None, after=after, limit=INBOX_PAGE
        )
        found += [entry for entry in page if scope.definition in (None, entry.definition)]
        if len(page) < INBOX_PAGE:
            break
        after = (page[-1].run_id, page[-1].item.node)
    return found[: scope.limit], len(found) > scope.limit
