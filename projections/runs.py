"""`runs`: every run with what people search by: definition, status, tenant, time, search attributes, text.

What changes of a run (its status, its end) is taken from its head, which the journal keeps in the transaction of the
row: the model is never ahead of the head, and equals it once it has caught up. Counts come from the events.

Text search is by words: the run's definition, start key, values of search attributes, error type and message are cut
into words of letters and digits in lower case. No extension of PostgreSQL is needed.
"""

import re
from collections.abc import Iterator, Sequence
from typing import cast

import asyncpg
import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    ErrorInfo,
    Event,
    NodeSettled,
    RunClosing,
    RunEnded,
    RunReopened,
    RunStarted,
)
from ductor.journal.records import Head
from ductor.projections.model import Projection, RunRow

MAX_WORDS = 200
"""Words of one run that can be searched; further ones are left out."""
MAX_WORD_CHARACTERS = 64
"""A longer word is cut, in the model and in the search alike."""

_ABOUT_THE_RUN: frozenset[type[Event]] = frozenset({RunStarted, RunReopened, RunClosing, RunEnded})
_WORD = re.compile(r"[^\W_]+")
_encode = msgspec.json.Encoder().encode


class RunChange(msgspec.Struct):
    """What a batch of rows says of one run. Counts are added to what is there.

    Attributes:
        is_new: its first row is among them.
        has_error_news: whether `error_message` replaces the one that is there. A run that is going to end badly has one
            before its head has the error; it is shown once the head has.
    """

    head: Head
    is_new: bool = False
    updated_at_us: int = 0
    version: int = 0
    steps: int = 0
    attempts: int = 0
    journal_bytes: int = 0
    continued_from_run_id: str | None = None
    has_error_news: bool = False
    error_message: str | None = None


class RunsProjection(Projection):
    """See the module's docstring."""

    name = "runs"
    revision = 1
    schema = """
CREATE TABLE run (
    run_id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    manifest_hash text NOT NULL,
    status text COLLATE "C" NOT NULL,
    started_at_us bigint NOT NULL,
    updated_at_us bigint NOT NULL,
    ended_at_us bigint,
    key text,
    parent_run_id uuid,
    root_run_id uuid,
    continued_from_run_id uuid,
    error_type text,
    error_message text,
    search_attributes jsonb NOT NULL,
    version bigint NOT NULL,
    steps bigint NOT NULL,
    attempts bigint NOT NULL,
    journal_bytes bigint NOT NULL,
    words tsvector NOT NULL
) WITH (fillfactor = 80);
"""
    indexes = """
CREATE INDEX run_by_time ON run (tenant, started_at_us, run_id);
CREATE INDEX run_by_definition ON run (tenant, definition, started_at_us, run_id);
CREATE INDEX run_by_status ON run (tenant, status, started_at_us, run_id);
CREATE INDEX run_by_definition_and_status ON run (tenant, definition, status, started_at_us, run_id);
CREATE INDEX run_by_attributes ON run USING gin (search_attributes jsonb_path_ops);
CREATE INDEX run_by_words ON run USING gin (words);
"""
    views = {  # noqa: RUF012 - a constant of the class
        "report_runs": """
SELECT run_id, tenant::text COLLATE "default" AS tenant, definition::text COLLATE "default" AS definition,
    manifest_hash, status::text COLLATE "default" AS status, ductor.eec_time(started_at_us) AS started_at,
    ductor.eec_time(updated_at_us) AS updated_at, ductor.eec_time(ended_at_us) AS ended_at,
    (ended_at_us - started_at_us) / 1000 AS duration_ms, key, parent_run_id, root_run_id, continued_from_run_id,
    error_type, CASE WHEN error_type IS NOT NULL THEN error_message END AS error_message, search_attributes, version,
    steps, attempts, journal_bytes
FROM run
"""
    }

    async def apply_rows(self, rows: Sequence[RunRow], connection: asyncpg.Connection) -> None:
        """Write what the rows say of their runs."""
        changes = run_changes(rows)
        in_order = sorted(changes.items())
        await connection.execute(_UPSERT, *_columns([_cells(run_id, change) for run_id, change in in_order]))
        news = [
            (run_id, change.error_message, _words(change))
            for run_id, change in in_order
            if change.has_error_news and not change.is_new
        ]
        if news:
            await connection.execute(_ERROR_NEWS, *_columns(news))


def run_changes(rows: Sequence[RunRow]) -> dict[str, RunChange]:
    """What the rows say of their runs, by run."""
    changes: dict[str, RunChange] = {}
    for row in rows:
        head = row.head
        change = changes.get(head.run_id)
        if change is None:
            change = changes[head.run_id] = RunChange(head)
        change.version, change.updated_at_us = row.version, row.at_us
        change.journal_bytes += row.size_bytes
        for event in row.events:
            kind = type(event)  # compared and not asked by isinstance: this is where the time goes
            if kind is AttemptDispatched:
                change.attempts += 1
            elif kind is NodeSettled:
                change.steps += cast("NodeSettled", event).status != "skipped"
            elif kind in _ABOUT_THE_RUN:
                _about_the_run(change, event)
    return changes


def _about_the_run(change: RunChange, event: AnyEvent) -> None:
    if isinstance(event, RunStarted):
        change.is_new = True
        change.continued_from_run_id = event.continued_from_run_id
    elif isinstance(event, RunReopened):
        _error_news(change, None)
    elif isinstance(event, RunClosing | RunEnded) and event.error is not None:
        _error_news(change, event.error)


def words_of(texts: Sequence[str]) -> list[str]:
    """The words of texts, each once, in order of appearance."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _WORD.finditer(text.lower()):
            found[match[0][:MAX_WORD_CHARACTERS]] = None
            if len(found) == MAX_WORDS:
                return list(found)
    return list(found)


def _error_news(change: RunChange, error: ErrorInfo | None) -> None:
    change.has_error_news = True
    change.error_message = None if error is None else error.message


def _cells(run_id: str, change: RunChange) -> tuple[object, ...]:
    head = change.head
    return (
        run_id,
        head.tenant,
        head.definition,
        head.manifest_hash,
        head.status,
        head.started_at_us,
        change.updated_at_us,
        head.ended_at_us,
        head.key,
        head.parent_run_id,
        head.root_run_id,
        change.continued_from_run_id,
        head.error_type,
        change.error_message,
        _encode(head.search_attributes).decode(),
        change.version,
        change.steps,
        change.attempts,
        change.journal_bytes,
        _words(change),
    )


def _words(change: RunChange) -> str:
    head = change.head
    texts = [head.definition, head.key or "", *_texts_in(head.search_attributes)]
    return " ".join(words_of([*texts, head.error_type or "", change.error_message or ""]))


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _texts_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


# What is about errors changes seldom, and has indexes that are dear to change: it is written apart.
_UPSERT = """
INSERT INTO run AS r (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us, ended_at_us, key,
    parent_run_id, root_run_id, continued_from_run_id, error_type, error_message, search_attributes, version, steps,
    attempts, journal_bytes, words)
SELECT run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us, ended_at_us, key,
    parent_run_id, root_run_id, continued_from_run_id, error_type, error_message, search_attributes::jsonb, version,
    steps, attempts, journal_bytes, array_to_tsvector(string_to_array(words, ' '))
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::uuid[], $11::uuid[], $12::uuid[], $13::text[], $14::text[], $15::text[], $16::bigint[],
    $17::bigint[], $18::bigint[], $19::bigint[], $20::text[])
    AS s (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us, ended_at_us, key,
        parent_run_id, root_run_id, continued_from_run_id, error_type, error_message, search_attributes, version,
        steps, attempts, journal_bytes, words)
ON CONFLICT (run_id) DO UPDATE SET
    manifest_hash = excluded.manifest_hash, status = excluded.status, updated_at_us = excluded.updated_at_us,
    ended_at_us = excluded.ended_at_us, error_type = excluded.error_type, version = excluded.version,
    steps = r.steps + excluded.steps, attempts = r.attempts + excluded.attempts,
    journal_bytes = r.journal_bytes + excluded.journal_bytes
"""
_ERROR_NEWS = """
UPDATE run r SET error_message = s.error_message, words = array_to_tsvector(string_to_array(s.words, ' '))
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS s (run_id, error_message, words) WHERE r.run_id = s.run_id
"""
