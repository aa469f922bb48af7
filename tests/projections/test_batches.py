"""Batches: columns of the feed, outlines of events, and rows as values are the same rows."""

import uuid
from collections.abc import Iterator

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.codec import encode_events
from ductor.journal.events import AnyEvent, AttemptFinished, NodeSettled, RunStarted, TickLimited
from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres.feed import EMPTY_PAGE, FeedColumns
from ductor.journal.records import FeedPosition, Head
from ductor.projections import rows
from ductor.projections.batch import row_batch
from ductor.projections.outlines import OUTLINES, decode_outlines
from tests import corpus
from tests.projections.journals import events_of, random_journal, random_journals, write_journals
from tests.projections.projecting import projector


def head_of(run_id: str) -> Head:
    return Head(
        run_id=run_id,
        tenant="acme",
        definition="order",
        manifest_hash="m1",
        status="running",
        started_at_us=0,
        updated_at_us=0,
    )


def columns_of(*texts: bytes) -> FeedColumns:
    """Rows of a run of their own each."""
    count = len(texts)
    return FeedColumns(
        eras=[0] * count,
        transaction_ids=[7] * count,
        positions=[2 * row for row in range(count)],
        run_ids=[str(uuid.UUID(int=row)) for row in range(count)],
        versions=[1] * count,
        at_us=list(range(count)),
        size_bytes=[len(text) for text in texts],
        events=b"[" + b",".join(texts) + b"]",
    )


async def test_columns_are_the_rows_of_the_feed(store: PostgresStore, connection: asyncpg.Connection) -> None:
    await write_journals(connection, random_journals(8))
    await connection.execute(
        "UPDATE ductor.eec_workflow_transition SET events = $1 WHERE version = 2",
        '[{"type":"context_patched","node":"größe","patch":{"ключ":"値 [1],"}}]',
    )
    after, seen = FeedPosition(), 0
    while entries := await store.feed(after, 7):
        columns = await store.feed_columns(after, 7)
        assert [columns.position(row) for row in range(len(columns))] == [entry.position for entry in entries]
        assert columns.texts() == [entry.transition.events for entry in entries]
        assert columns.size_bytes == [len(entry.transition.events) for entry in entries]
        found = list(zip(columns.run_ids, columns.versions, columns.at_us, strict=True))
        assert found == [(one.transition.run_id, one.transition.version, one.transition.at_us) for one in entries]
        after, seen = entries[-1].position, seen + len(entries)
    assert seen > 30
    assert await store.feed_columns(after, 7) == EMPTY_PAGE
    assert len(await store.feed_columns(FeedPosition(), 1_000, max_bytes=1)) == 1


@given(st.lists(st.binary(max_size=5), max_size=6), st.integers(-1, 13))
def test_columns_are_cut_at_a_place(texts: list[bytes], position: int) -> None:
    columns = columns_of(*texts)
    count = columns.count_up_to(FeedPosition(0, 7, position))
    assert count == sum(2 * row <= position for row in range(len(texts)))
    cut = columns.only(range(count))
    assert (len(cut), cut.texts()) == (count, texts[:count])
    assert cut.events == b"[" + b",".join(texts[:count]) + b"]"


async def test_columns_are_bounded_by_their_text(store: PostgresStore, connection: asyncpg.Connection) -> None:
    await write_journals(connection, random_journals(3))
    text = '[{"type":"context_patched","node":"a","patch":{"a":"' + 100_000 * "a" + '"}}]'
    await connection.execute("UPDATE ductor.eec_workflow_transition SET events = $1", text)
    stored = await connection.fetchval("SELECT max(pg_column_size(events)) FROM ductor.eec_workflow_transition")
    assert stored < 3_000, "the text was not compressed"
    assert len(await store.feed(FeedPosition(), 3, max_bytes=150_000)) == 3
    assert len(await store.feed_columns(FeedPosition(), 3, max_bytes=150_000)) == 2


def events_of_the_corpus() -> Iterator[AnyEvent]:
    for name in corpus.names():
        for row in corpus.read(name):
            yield from events_of(row)


def test_an_outline_says_what_its_event_says() -> None:
    seen: set[type] = set()
    for event in events_of_the_corpus():
        ((outline,),) = decode_outlines(b"[" + encode_events([event]) + b"]")
        assert type(outline) is OUTLINES[type(event)]
        for field in msgspec.structs.fields(outline):
            assert getattr(outline, field.name) == getattr(event, field.name), field.name
        seen.add(type(event))
    assert {RunStarted, AttemptFinished, NodeSettled} < seen
    assert len(seen) > 20, "the corpus has hardly any kinds of events"


def test_an_event_that_is_not_known_has_no_outline() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_outlines(b'[[{"type":"of_tomorrow"}]]')


def test_what_is_not_known_is_passed_over_in_outlines_and_rows_alike() -> None:
    settled = NodeSettled(node="a", status="succeeded", output={"n": 1})
    strange = b'[{"type":"of_tomorrow"},' + encode_events([settled])[1:-1] + b',{"type":"tick_limited","more":1},7]'
    columns = columns_of(encode_events([TickLimited()]), strange)
    batch = row_batch(columns, {run_id: head_of(run_id) for run_id in columns.run_ids})
    first, second = batch.rows
    assert (first.events, second.events) == ([TickLimited()], [settled, TickLimited()])
    assert [[type(one) for one in outlines] for outlines in batch.outlines] == [
        [OUTLINES[type(event)] for event in row.events] for row in (first, second)
    ]
    assert (first.skipped_events, second.skipped_events) == (0, 2)
    assert (batch.skipped_by_row, batch.skipped_events) == ({1: 2}, 2)
    assert (second.run_id, second.version, second.at_us) == (columns.run_ids[1], 1, 1)
    assert (second.size_bytes, second.position) == (len(strange), FeedPosition(0, 7, 2))


def test_rows_of_runs_that_are_there_are_kept_in_order() -> None:
    texts = [encode_events(events_of(row)) for row in random_journal(1).rows[:4]]
    columns = columns_of(*texts)
    there = [columns.run_ids[row] for row in (3, 1)]
    batch = row_batch(columns, {run_id: head_of(run_id) for run_id in there})
    assert [row.run_id for row in batch.rows] == [columns.run_ids[1], columns.run_ids[3]]
    assert [encode_events(row.events) for row in batch.rows] == [texts[1], texts[3]]
    assert [head.run_id for head in batch.heads] == [columns.run_ids[1], columns.run_ids[3]]


async def test_projections_at_one_place_share_one_decoding(
    store: PostgresStore, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write_journals(connection, random_journals(4))
    decoded: list[int] = []

    def counted(text: bytes) -> object:
        outlines = decode_outlines(text)
        decoded.append(len(outlines))
        return outlines

    monkeypatch.setattr(rows, "decode_outlines", counted)
    one = projector(store)
    await one.catch_up()
    await one.stop()
    total = await connection.fetchval("SELECT count(*) FROM ductor.eec_workflow_transition")
    assert sum(decoded) == total
    applied = await connection.fetch("SELECT applied_rows FROM ductor.eec_projection")
    assert [row[0] for row in applied] == [total] * 4
