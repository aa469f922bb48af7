"""What the built-in models make of journals, without a database and in one."""

from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ErrorInfo,
    NodeParked,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
    RunStarted,
)
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import Head
from ductor.journal.state import RunState
from ductor.projections.batch import RowBatch, row_batch
from ductor.projections.builtin import builtin_projections
from ductor.projections.checkpoints import begin_rebuild
from ductor.projections.funnel import funnel_changes
from ductor.projections.reports import percentile_ms
from ductor.projections.rows import known_events, step_name
from ductor.projections.runs import MAX_WORDS, run_changes, words_of
from ductor.projections.steps import StepChanges, bucket_of, step_changes
from ductor.projections.tally import HOUR_US
from ductor.projections.usage import DAY_US, usage_changes
from tests import corpus
from tests.projections.journals import (
    Journal,
    batch_of,
    events_of,
    expected_ends,
    expected_flow,
    expected_runs,
    expected_steps,
    random_journal,
    random_journals,
    renamed,
    tables_of,
    write_journals,
    write_row,
)
from tests.projections.projecting import project, projector

SECOND_US = 1_000_000
HEAD = Head(
    run_id="0198f5d2-0000-7000-8000-000000000001",
    tenant="acme",
    definition="order",
    manifest_hash="m1",
    status="running",
    started_at_us=0,
    updated_at_us=0,
)


def batch(*given: tuple[float, list[Any]], first_version: int = 1) -> RowBatch:
    """Rows of one run as (time in seconds, events)."""
    rows = [(version, int(at_s * SECOND_US), events) for version, (at_s, events) in enumerate(given, first_version)]
    return batch_of(HEAD, *rows)


def steps_of(one: RowBatch, known: dict[tuple[str, str], int] | None = None) -> StepChanges:
    return step_changes(one, one.spans(known or {}))


def started(**fields) -> RunStarted:
    return RunStarted(tenant="acme", definition="order", manifest_hash="m1", entrypoints=("a",), **fields)


def test_a_duration_is_that_from_the_first_attempt_to_the_end():
    error = ErrorInfo(type="Boom")
    changes = steps_of(
        batch(
            (0, [started(), AttemptDispatched(node="a", generation=1, task="t")]),
            (2, [AttemptFinished(node="a", generation=1, outcome="failed", error=error, finished_at_us=5),
                 NodeParked(node="a", waiting="retry")]),
            (3, [AttemptDispatched(node="a", generation=2, task="t", attempt=2)]),
            (4, [AttemptFinished(node="a", generation=2, outcome="failed", error=error, finished_at_us=7),
                 NodeSettled(node="a", status="failed")]),
        )
    )  # fmt: skip
    change = changes["acme", "order", 0]["a"]
    counts = change.counts
    assert (counts.failed, counts.attempts, counts.attempts_failed, counts.attempt_us) == (1, 2, 2, 12)
    assert counts.duration_us == 4 * SECOND_US
    assert change.durations == {bucket_of(4 * SECOND_US): 1}
    failure = change.failures["Boom"]  # the error of the last attempt is that of the step
    assert (failure.failed, failure.attempts_failed, failure.last_at_us) == (1, 2, 4 * SECOND_US)


def test_a_step_that_began_before_the_batch_is_known_from_there():
    known = {(HEAD.run_id, "a"): 1 * SECOND_US}
    one = batch((3, [NodeSettled(node="a", status="succeeded")]), first_version=7)
    changes = steps_of(one, known)
    assert changes["acme", "order", 0]["a"].counts.duration_us == 2 * SECOND_US
    spans = one.spans(known)
    assert (spans.added, spans.removed) == ([], [(HEAD.run_id, "a")])


def test_what_is_known_of_open_steps_is_asked_of_each_table():
    one = batch((3, [NodeSettled(node="a", status="succeeded")]), first_version=7)
    durations = [
        steps_of(one, {(HEAD.run_id, "a"): at_s * SECOND_US})["acme", "order", 0]["a"].counts.duration_us
        for at_s in (1, 2, 1)
    ]
    assert durations == [2 * SECOND_US, 1 * SECOND_US, 2 * SECOND_US]


def test_skipped_steps_have_no_duration_and_hours_begin_on_the_hour():
    at_s = 2 * HOUR_US / SECOND_US + 5
    changes = steps_of(batch((at_s, [NodeSettled(node="a", status="skipped")])))
    assert list(changes) == [("acme", "order", 2 * HOUR_US)]
    assert not changes["acme", "order", 2 * HOUR_US]["a"].durations


def test_what_an_ended_run_leaves_open_is_forgotten():
    begun = (0, [started(), AttemptDispatched(node="a", generation=1, task="t")])
    ended = (1, [RunEnded(status="terminated")])
    spans = batch(begun, ended).spans({})
    assert (spans.added, spans.ended_runs) == ([], [])
    since_us = {(HEAD.run_id, "a"): 0}
    spans = batch(ended, first_version=2).spans(since_us)
    assert (spans.added, spans.removed, spans.ended_runs) == ([], [], [HEAD.run_id])


def test_a_step_that_begins_anew_in_a_run_that_had_ended_is_open():
    again = AttemptDispatched(node="a", generation=2, task="t")
    one = batch((0, [RunEnded(status="failed")]), (0, [RunReopened(nodes=()), again]), first_version=5)
    spans = one.spans({(HEAD.run_id, "a"): 0})
    assert (spans.added, spans.ended_runs) == ([(HEAD.run_id, "a", 0)], [HEAD.run_id])


def test_a_run_ends_by_the_step_that_decided_it_even_rows_before():
    closing: dict[str, str] = {}
    first = batch(
        (0, [started(), NodeSettled(node="a", status="succeeded"), NodeSettled(node="b", status="failed"),
             NodeSettled(node="c", status="cancelled"), RunClosing(status="failed")]),
    )  # fmt: skip
    last = batch((9, [NodeSettled(node="last", status="succeeded"), RunEnded(status="failed")]), first_version=2)
    funnel_changes(first, first.spans({}), closing)
    assert closing == {HEAD.run_id: "b"}
    changes = funnel_changes(last, last.spans({}), closing)
    assert changes["acme", "order", "m1"]["ended", "b", "failed"] == 1
    assert closing == {}


def test_a_step_is_entered_once_however_often_it_is_tried():
    one = batch(
        (0, [AttemptDispatched(node="a", generation=1, task="t")]),
        (1, [NodeParked(node="a", waiting="retry")]),
        (2, [AttemptDispatched(node="a", generation=2, task="t", attempt=2)]),
        (3, [NodeSettled(node="a", status="succeeded", taken=("b",), untaken=("c",))]),
    )
    changes = funnel_changes(one, one.spans({}), {})
    assert changes["acme", "order", "m1"] == {
        ("entered", "a", ""): 1,
        ("settled", "a", "succeeded"): 1,
        ("taken", "a", "b"): 1,
        ("untaken", "a", "c"): 1,
    }


def test_a_redrive_takes_the_error_back():
    error = ErrorInfo(type="Boom", message="no more")
    failed: list[tuple[float, list[Any]]] = [(0, [started()]), (1, [RunEnded(status="failed", error=error)])]
    assert run_changes(batch(*failed))[HEAD.run_id].error_message == "no more"
    change = run_changes(batch(*failed, (2, [RunReopened(nodes=())])))[HEAD.run_id]
    assert (change.has_error_news, change.error_message) == (True, None)


def test_usage_is_counted_on_the_day_of_the_row():
    one = batch(
        (0, [started()]),
        (DAY_US / SECOND_US + 1, [NodeSettled(node="a", status="skipped"), NodeSettled(node="b", status="succeeded"),
                                  RunEnded(status="completed")]),
    )  # fmt: skip
    changes = usage_changes(one)
    first, second = changes["acme", 0], changes["acme", DAY_US]
    assert (first.runs_started, first.journal_rows, first.journal_bytes) == (1, 1, one.columns.size_bytes[0])
    assert (second.runs_ended, second.runs_completed, second.steps) == (1, 1, 1)


@given(st.integers(1, 10**14))
def test_a_bucket_is_right_within_five_percent(duration_us: int):
    found = percentile_ms({bucket_of(duration_us): 1}, 0.5)
    assert found is not None
    assert abs(found * 1_000 - duration_us) <= 0.05 * duration_us


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_percentiles_of_histograms_are_those_of_the_durations(durations_us: list[int], fraction: float):
    histogram: dict[int, int] = {}
    for one in durations_us:
        histogram[bucket_of(one)] = histogram.get(bucket_of(one), 0) + 1
    ranked = sorted(durations_us)
    exact = next(one for place, one in enumerate(ranked, start=1) if place >= fraction * len(ranked))
    found = percentile_ms(histogram, fraction)
    assert found is not None
    assert abs(found * 1_000 - exact) <= 0.05 * exact


def test_children_of_a_scatter_count_as_one_step():
    assert [step_name(node) for node in ("a", "a[12]", "a[1].b[2]")] == ["a", "a[]", "a[].b[]"]


def test_words_are_letters_and_digits_in_lower_case_and_bounded():
    assert words_of(["Order-7 grün_X", "ORDER a@b.example"]) == ["order", "7", "grün", "x", "a", "b", "example"]
    assert len(words_of([" ".join(map(str, range(1_000)))])) == MAX_WORDS


@pytest.mark.parametrize(
    ("written", "searched"),
    [
        ("Café", "CAFE\u0301"),  # an accent of its own
        ("Straße 7", "STRASSE 7"),
        ("\uff21\uff22\uff11", "ab1"),  # full width
        ("ﬁnal", "FINAL"),  # a ligature
        ("ΟΔΟΣ", "οδος"),  # the last sigma
        ("不吉利", "不吉利"),
    ],
)
def test_what_people_take_for_one_word_is_one_word(written: str, searched: str):
    assert words_of([written]) == words_of([searched])
    assert words_of([written]) != []


def test_what_is_not_known_is_passed_over():
    text = b'[{"type":"of_tomorrow"},{"type":"tick_limited","more":1},{"type":"run_ended"},7]'
    events, skipped = known_events(text, HEAD.run_id, 1)
    assert ([type(event).__name__ for event in events], skipped) == (["TickLimited"], 3)


def test_rows_of_runs_that_are_gone_are_left_out():
    one = batch((0, [started()]), (1, [RunEnded(status="completed")]))
    gone = row_batch(one.columns, {})
    assert (len(gone), gone.rows, gone.outlines, gone.heads) == (0, [], [], [])


async def test_models_agree_with_the_fold_of_random_runs(store: PostgresStore, connection: asyncpg.Connection):
    journals = random_journals(60)
    await write_journals(connection, journals)
    await project(store)
    await assert_models_agree(connection, journals)
    assert len({journal.state.status for journal in journals}) >= 4, "the runs are too much alike"


@pytest.mark.parametrize("seed", range(3))
async def test_models_agree_however_the_feed_is_cut(store: PostgresStore, connection: asyncpg.Connection, seed: int):
    journals = [renamed(one.rows, 1_000 * seed + place) for place, one in enumerate(random_journals(10))]
    for place in range(0, 10, 2 + seed):
        await write_journals(connection, journals[place : place + 2 + seed])
        await project(store)
    await assert_models_agree(connection, journals)


async def test_models_filled_row_by_row_are_those_filled_at_once(store: PostgresStore, connection: asyncpg.Connection):
    journals = random_journals(8)
    assert any(
        isinstance(event, RunClosing) and event.error for journal in journals for event in journal_events(journal)
    )
    names = [one.name for one in builtin_projections()]
    states = {journal.run_id: RunState(run_id=journal.run_id) for journal in journals}
    following = projector(store)
    for journal in journals:
        for row in journal.rows:
            async with connection.transaction():
                await write_row(connection, states[journal.run_id], row)
            await following.catch_up()
    followed = [await tables_of(connection, f"ductor_{name}_1") for name in names]
    for name in names:
        assert await begin_rebuild(connection, name)
    # the first generation is dropped when the second has taken its place
    await following.catch_up()
    await following.stop()
    assert [await tables_of(connection, f"ductor_{name}_2") for name in names] == followed


def journal_events(journal: Journal) -> list[AnyEvent]:
    return [event for row in journal.rows for event in events_of(row)]


async def test_models_agree_on_the_journals_of_the_corpus(store: PostgresStore, connection: asyncpg.Connection):
    journals = [renamed(corpus.read(name), number) for number, name in enumerate(corpus.names())]
    journals = [one for one in journals if isinstance(events_of(one.rows[0])[0], RunStarted)]
    await write_journals(connection, journals)
    await project(store)
    await assert_models_agree(connection, journals)


async def assert_models_agree(connection: asyncpg.Connection, journals: list[Journal]) -> None:
    failed = await connection.fetch("SELECT name, error FROM ductor.eec_projection WHERE failed_at_us IS NOT NULL")
    assert failed == []
    found = await connection.fetch(
        "SELECT run_id::text, status, version, steps, attempts, journal_bytes, error_message FROM ductor.report_runs"
    )
    assert {row[0]: tuple(row)[1:] for row in found} == expected_runs(journals)
    flow = await connection.fetch(
        "SELECT measure, step, target, sum(count)::bigint FROM ductor.report_funnel"
        " WHERE measure NOT IN ('entered', 'ended') GROUP BY measure, step, target"
    )
    assert {tuple(row)[:3]: row[3] for row in flow} == expected_flow(journals)
    ends = await connection.fetch(
        "SELECT target, sum(count)::bigint FROM ductor.report_funnel WHERE measure = 'ended' GROUP BY target"
    )
    assert {row[0]: row[1] for row in ends} == expected_ends(journals)
    steps = await connection.fetch(
        "SELECT step, sum(failed)::bigint, sum(attempts)::bigint, sum(attempts_failed)::bigint"
        " FROM ductor.report_step_statistics GROUP BY step"
    )
    assert {row[0]: tuple(row)[1:] for row in steps} == expected_steps(journals)
    (usage,) = await connection.fetch(
        "SELECT sum(runs_started)::bigint, sum(runs_ended)::bigint, sum(journal_bytes)::bigint FROM ductor.report_usage"
    )
    runs = expected_runs(journals)
    assert tuple(usage) == (
        len(journals),
        sum(expected_ends(journals).values()),
        sum(int(str(run[4])) for run in runs.values()),
    )


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_open_steps_don_t_depend_on_how_rows_are_cut(seed: int, size: int):
    all_rows = [(row.version, row.at_us, events_of(row)) for row in random_journal(seed).rows]
    whole = total_duration_us(steps_of(batch_of(HEAD, *all_rows)))
    table: dict[tuple[str, str], int] = {}
    total = 0
    for first in range(0, len(all_rows), size):
        part = batch_of(HEAD, *all_rows[first : first + size])
        known = {key: table[key] for key in part.step_keys if key in table}
        total += total_duration_us(steps_of(part, known))
        spans = part.spans(known)
        table = {key: at_us for key, at_us in table.items() if key not in spans.removed and not spans.ended_runs}
        table |= {(run_id, step): at_us for run_id, step, at_us in spans.added}
    assert total == whole


def total_duration_us(changes: StepChanges) -> int:
    return sum(one.counts.duration_us for by_step in changes.values() for one in by_step.values())
