"""Failures and throughput say what the journals say, counted in the plainest way."""

from collections import Counter
from collections.abc import Iterable

import asyncpg
import pytest

from ductor.journal.events import AttemptFinished, NodeSettled
from ductor.journal.postgres import PostgresStore
from ductor.projections.errors import InvalidReportError
from ductor.projections.read_models import ReadModels
from ductor.projections.reports import MAX_REPORT_ROWS
from ductor.projections.rows import step_name
from tests.projections.journals import Journal, events_of, random_journals, write_journals
from tests.projections.projecting import project

COUNT = 40
PERIOD_MS = 10_000


@pytest.fixture
async def journals(store: PostgresStore, connection: asyncpg.Connection) -> list[Journal]:
    made = random_journals(COUNT)
    await write_journals(connection, made)
    await project(store)
    return made


@pytest.fixture
async def models(store: PostgresStore, journals: list[Journal]):
    models = ReadModels(store)
    yield models
    await models.close()


def failures_in(journals: Iterable[Journal]) -> tuple[Counter[tuple[str, str, str]], Counter[tuple[str, str, str]]]:
    """Steps that failed for good, and attempts that failed, by definition, step and type of error."""
    failed: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for journal in journals:
        last: dict[str, str] = {}
        for event in (event for row in journal.rows for event in events_of(row)):
            if isinstance(event, AttemptFinished):
                last[event.node] = event.error.type if event.error else ""
                if event.outcome == "failed":
                    tried[journal.state.definition, step_name(event.node), last[event.node]] += 1
            elif isinstance(event, NodeSettled) and event.status == "failed":
                cause = event.error.type if event.error else last.get(event.node, "")
                failed[journal.state.definition, step_name(event.node), cause] += 1
    return failed, tried


async def test_failures_are_those_of_the_journals(models: ReadModels, journals: list[Journal]):
    tenant = journals[0].state.tenant
    found = await models.step_failures(tenant)
    failed, tried = failures_in(journals)
    assert len(failed) > 1
    assert {(one.definition, one.step, one.error_type): one.failed for one in found if one.failed} == dict(failed)
    told = {(one.definition, one.step, one.error_type): one.attempts_failed for one in found if one.attempts_failed}
    assert told == dict(tried)
    assert [one.failed for one in found] == sorted((one.failed for one in found), reverse=True)
    runs = {journal.run_id for journal in journals}
    assert {one.last_run_id for one in found} <= runs
    assert await models.step_failures(tenant, definition="nothing") == []
    assert await models.step_failures(tenant, until_us=0) == []


async def test_throughput_is_that_of_the_journals(models: ReadModels, journals: list[Journal]):
    tenant, period_us = journals[0].state.tenant, PERIOD_MS * 1_000
    states = [journal.state for journal in journals]
    since = min(state.started_at_us for state in states)
    until = max(journal.rows[-1].at_us for journal in journals) + 1
    found = await models.throughput(tenant, since_us=since, until_us=until, period_ms=PERIOD_MS)
    started = Counter(state.started_at_us // period_us for state in states)
    ended = Counter((state.ended_at_us // period_us, state.status) for state in states if state.ended_at_us)
    assert {one.at_us // period_us: one.started for one in found if one.started} == dict(started)
    for status in ("completed", "failed", "cancelled", "terminated", "continued"):
        told = {one.at_us // period_us: getattr(one, status) for one in found if getattr(one, status)}
        assert told == {period: count for (period, kind), count in ended.items() if kind == status}
    assert sum(one.ended for one in found) == sum(ended.values()) > 0
    assert [one.at_us for one in found] == list(range(since - since % period_us, until, period_us))


async def test_the_time_of_throughput_is_exact(models: ReadModels, journals: list[Journal]):
    tenant = journals[0].state.tenant
    at_us = min(journal.state.started_at_us for journal in journals)
    before = await models.throughput(tenant, since_us=at_us - 5_000_000, until_us=at_us, period_ms=1_000)
    assert [one.started for one in before] == [0] * len(before)
    (first, *_) = await models.throughput(
        tenant, since_us=at_us - at_us % 1_000_000, until_us=at_us + 1, period_ms=1_000
    )
    assert first.started == sum(journal.state.started_at_us == at_us for journal in journals)


@pytest.mark.parametrize(("until_us", "period_ms"), [(10_000_000, 999), ((MAX_REPORT_ROWS + 1) * 1_000_000, 1_000)])
async def test_periods_are_bounded(models: ReadModels, until_us: int, period_ms: int):
    with pytest.raises(InvalidReportError):
        await models.throughput("default", since_us=0, until_us=until_us, period_ms=period_ms)
