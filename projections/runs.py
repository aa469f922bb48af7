"""`runs`: every run with what people search by: definition, status, tenant, time, search attributes, text.

What changes of a run (its status, its end) is taken from its head, which the journal keeps in the transaction of the
row: the model is never ahead of the head, and equals it once it has caught up. Counts come from the events.

Text search is by words: the run's definition, start key, values of search attributes, error type and message are cut
into words of letters and digits. What people take for one word is one, however it is written: upper or lower case,
composed or decomposed accents, full-width letters, `ß` or `ss`. No extension of PostgreSQL is needed.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

import asyncpg
import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import ErrorInfo
from ductor.journal.records import Head
from ductor.projections.batch import RowBatch
from ductor.projections.model import Projection
from ductor.projections.outlines import ClosingOutline, EndedOutline, ReopenedOutline, StartedOutline
from ductor.projections.tally import AboutRun

MAX_WORDS = 200
"""Words of one run that can be searched; further ones are left out."""
MAX_WORD_CHARACTERS = 64
"""A longer word is cut, in the model and in the search alike."""

_WORD = re.compile(r"[^\W_]+")
_encode = msgspec.json.Encoder().encode


class RunChange(msgspec.Struct):
    """What a batch of rows says of one run. Counts are added to what is there.

    Attributes:
        is_new: its first row is among them.
        has_error_news: whether `error_type` and `error_message` replace what is there. A run that is going to end badly
            has them before its head has the error; they are shown once the head has.
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
    error_type: str | None = None
    error_message: str | None = None


class TableRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the table as the statement takes it. A batch goes over as one JSON text: encoding an array for each
    column takes the driver twice as long."""

    run_id: str
    tenant: str
    definition: str
    manifest_hash: str
    status: str
    started_at_us: int
    updated_at_us: int
    ended_at_us: int | None = None
    key: str | None = None
    parent_run_id: str | None = None
    root_run_id: str | None = None
    continued_from_run_id: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    search_attributes: JsonObject
    version: int
    steps: int
    attempts: int
    journal_bytes: int
    words: str


class RunsProjection(Projection):
    """See the module's docstring."""

    name = "runs"
    revision = 2
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

    async def apply_batch(self, batch: RowBatch, connection: asyncpg.Connection) -> None:
        """Write what the rows say of their runs."""
        changes = run_changes(batch)
        in_order = sorted(changes.items())
        rows = [_table_row(run_id, change) for run_id, change in in_order]
        await connection.execute(_UPSERT, _encode(rows).decode())
        news = [
            (run_id, change.error_message, _words(change))
            for run_id, change in in_order
            if change.has_error_news and not change.is_new
        ]
        if news:
            await connection.execute(_ERROR_NEWS, *(list(column) for column in zip(*news, strict=True)))


def run_changes(batch: RowBatch) -> dict[str, RunChange]:
    """What a batch says of its runs, by run."""
    columns, tally = batch.columns, batch.tally
    last_rows = dict(zip(batch.runs, range(len(batch)), strict=True))
    changes = [
        RunChange(
            head,
            updated_at_us=columns.at_us[last_rows[run]],
            version=columns.versions[last_rows[run]],
            steps=tally.settled_by_run[run],
            attempts=tally.dispatched_by_run[run],
        )
        for run, head in enumerate(batch.heads)
    ]
    for run, size_bytes in zip(batch.runs, columns.size_bytes, strict=True):
        changes[run].journal_bytes += size_bytes
    for row, event in tally.about_runs:
        _about_the_run(changes[batch.runs[row]], event)
    return {change.head.run_id: change for change in changes}


def _about_the_run(change: RunChange, event: AboutRun) -> None:
    if isinstance(event, StartedOutline):
        change.is_new = True
        change.continued_from_run_id = event.continued_from_run_id
    elif isinstance(event, ReopenedOutline):
        _error_news(change, None)
    elif isinstance(event, ClosingOutline | EndedOutline) and event.error is not None:
        _error_news(change, event.error)


def words_of(texts: Sequence[str]) -> list[str]:
    """The words of texts, each once, in order of appearance."""
    found: dict[str, None] = {}
    for text in texts:
        for match in _WORD.finditer(_folded(text)):
            found[match[0][:MAX_WORD_CHARACTERS]] = None
            if len(found) == MAX_WORDS:
                return list(found)
    return list(found)


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _error_news(change: RunChange, error: ErrorInfo | None) -> None:
    change.has_error_news = True
    change.error_type, change.error_message = (None, None) if error is None else (error.type, error.message)


def _table_row(run_id: str, change: RunChange) -> TableRow:
    head = change.head
    return TableRow(
        run_id=run_id,
        tenant=head.tenant,
        definition=head.definition,
        manifest_hash=head.manifest_hash,
        status=head.status,
        started_at_us=head.started_at_us,
        updated_at_us=change.updated_at_us,
        ended_at_us=head.ended_at_us,
        key=head.key,
        parent_run_id=head.parent_run_id,
        root_run_id=head.root_run_id,
        continued_from_run_id=change.continued_from_run_id,
        error_type=head.error_type,
        error_message=change.error_message,
        search_attributes=head.search_attributes,
        version=change.version,
        steps=change.steps,
        attempts=change.attempts,
        journal_bytes=change.journal_bytes,
        words=_words(change),
    )


def _words(change: RunChange) -> str:
    """The head may be newer than the rows: what the words say of an error must not depend on when they are written. Of
    a run whose first rows are gone, its head alone knows."""
    head = change.head
    error_type = change.error_type if change.is_new or change.has_error_news else head.error_type
    texts = [head.definition, head.key or "", *_texts_in(head.search_attributes)]
    return " ".join(words_of([*texts, error_type or "", change.error_message or ""]))


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
FROM json_to_recordset($1::text::json) AS s (run_id uuid, tenant text, definition text, manifest_hash text, status text,
    started_at_us bigint, updated_at_us bigint, ended_at_us bigint, key text, parent_run_id uuid, root_run_id uuid,
    continued_from_run_id uuid, error_type text, error_message text, search_attributes json, version bigint,
    steps bigint, attempts bigint, journal_bytes bigint, words text)
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
