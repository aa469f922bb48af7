"""Search for runs: what can be asked, and the statements that answer it.

Pages go from the newest run to the oldest, by key (start, run id), so that a page costs the same wherever it is. What
an index knows in that order (tenant, definition, status, time) is walked; statuses are walked each on its own and
merged.

Search attributes and words have indexes of another kind, which know which runs match, but not in what order. Which of
the two is quick depends on how many match: where many do, a short walk over the newest finds a page of them; where few
do, the other index gives them all at once. So a bounded walk comes first, and the index where that did not suffice:
then matches are rare, and no guess of a planner is needed.
"""

import re
import uuid
from typing import get_args

import asyncpg
import msgspec

from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import RunStatus
from ductor.projections.errors import InvalidSearchError
from ductor.projections.runs import words_of

MAX_PAGE_RUNS = 1_000
"""Runs of one page at most."""
MAX_SEARCH_WORDS = 20
"""Words of a text that is searched for."""
MAX_SEARCH_ATTRIBUTES = 20
"""Search attributes that are asked for together."""
WALKED_RUNS = 4_000
"""So many of the newest runs are looked at for attributes and words before their indexes are asked."""

LATEST_STATUSES: tuple[RunStatus, ...] = tuple(one for one in get_args(RunStatus) if one != "continued")
"""Of runs that no other continues. Walked each on its own: so a chain of many runs is stepped over at no cost."""

_CURSOR = re.compile(r"(\d{1,18})-([0-9a-f-]{36})")
_COLUMNS = """r.run_id::text, r.definition, r.manifest_hash, r.status, r.started_at_us, r.updated_at_us, r.ended_at_us,
    r.key, r.parent_run_id::text, r.error_type,
    CASE WHEN r.error_type IS NOT NULL THEN r.error_message END, r.search_attributes::text, r.version, r.steps,
    r.attempts"""
_ORDER = "ORDER BY r.started_at_us DESC, r.run_id DESC"
_encode = msgspec.json.Encoder().encode
_ATTRIBUTES: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(JsonObject)


class RunSearch(msgspec.Struct, frozen=True, kw_only=True):
    """What to search for; everything given must hold.

    Attributes:
        definition: runs of this one.
        statuses: any of these.
        shows_continued: also runs that others continue, where `statuses` don't say; else a chain shows its latest run.
        started_after_us, started_before_us: from the first on, before the second, in microseconds since the epoch.
        attributes: search attributes with these values; a list or an object matches by what it contains.
        text: each of its words begins a word of the definition's name, the start key, a search attribute, the error's
            type or its message.
        after: `next` of the page before.
        limit: runs of a page.
    """

    definition: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    shows_continued: bool = False
    started_after_us: int | None = None
    started_before_us: int | None = None
    attributes: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    text: str = ""
    after: str | None = None
    limit: int = 50


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was found. Times are microseconds since the epoch; counts are as in `ductor.report_runs`."""

    run_id: str
    definition: str
    manifest_hash: str
    status: RunStatus
    started_at_us: int
    updated_at_us: int
    ended_at_us: int | None
    key: str | None
    parent_run_id: str | None
    error_type: str | None
    error_message: str | None
    search_attributes: JsonObject
    version: int
    steps: int
    attempts: int


class RunPage(msgspec.Struct, frozen=True):
    """Runs, newest first. `next` is what the search for the following page has as `after`; None on the last one."""

    runs: tuple[FoundRun, ...]
    next: str | None


class _Query:
    """SQL with its arguments, put together."""

    def __init__(self, schema: str) -> None:
        self.table = f'"{schema}".run r'
        self.arguments: list[object] = []

    def argument(self, value: object) -> str:
        """The number that stands for a value."""
        self.arguments.append(value)
        return f"${len(self.arguments)}"


async def search_runs(connection: asyncpg.Connection, schema: str, tenant: str, search: RunSearch) -> RunPage:
    """A page of the tenant's runs. Raises InvalidSearchError, and UndefinedTableError when the model was replaced."""
    check(search)
    wanted = search.limit + 1
    if not search.attributes and not search.text:
        rows = await _fetch(connection, walk(schema, tenant, search, wanted))
        return _page(rows, search.limit)
    rows = await _fetch(connection, walk(schema, tenant, search, wanted))
    if len(rows) < wanted:
        rows = await _fetch(connection, look_up(schema, tenant, search, wanted))
    return _page(rows, search.limit)


def check(search: RunSearch) -> None:
    """Raise InvalidSearchError for what can't be searched for."""
    if not 1 <= search.limit <= MAX_PAGE_RUNS:
        raise InvalidSearchError("limit", f"from 1 to {MAX_PAGE_RUNS}, found {search.limit}")
    if len(search.attributes) > MAX_SEARCH_ATTRIBUTES:
        raise InvalidSearchError("attributes", f"{MAX_SEARCH_ATTRIBUTES} at most, found {len(search.attributes)}")
    words = words_of([search.text])
    if search.text and not words:
        raise InvalidSearchError("text", f"{search.text!r} holds no letter or digit")
    if len(words) > MAX_SEARCH_WORDS:
        raise InvalidSearchError("text", f"{MAX_SEARCH_WORDS} words at most, found {len(words)}")
    if search.after is not None:
        _cursor(search.after)


def walk(schema: str, tenant: str, search: RunSearch, wanted: int) -> tuple[str, list[object]]:
    """The statement that walks from the newest run, over WALKED_RUNS at most where not all conditions are in order."""
    query = _Query(schema)
    matching = _matching(query, search)
    limit = WALKED_RUNS if matching else wanted
    ordered = _ordered(query, tenant, search)
    branches = []
    statuses = search.statuses if matching or search.statuses or search.shows_continued else LATEST_STATUSES
    for status in dict.fromkeys(statuses) or (None,):
        one = ordered if status is None else [*ordered, f"r.status = {query.argument(status)}"]
        sql = f"(SELECT r.* FROM {query.table} WHERE {' AND '.join(one)} {_ORDER} LIMIT {limit})"  # noqa: S608 - as below
        branches.append(sql)
    text = (  # values are arguments, the rest is ours
        f"SELECT {_COLUMNS} FROM ({' UNION ALL '.join(branches)}) AS r"  # noqa: S608
        f" WHERE {' AND '.join(matching) or 'true'} {_ORDER} LIMIT {wanted}"
    )
    return text, query.arguments


def look_up(schema: str, tenant: str, search: RunSearch, wanted: int) -> tuple[str, list[object]]:
    """The statement that asks the indexes of attributes and words first."""
    query = _Query(schema)
    conditions = [*_matching(query, search), *_ordered(query, tenant, search)]
    if search.statuses:
        conditions.append(f"r.status = ANY ({query.argument(list(search.statuses))}::text[])")
    text = (
        f"WITH matching AS MATERIALIZED (SELECT r.* FROM {query.table} WHERE {' AND '.join(conditions)})"  # noqa: S608
        f" SELECT {_COLUMNS} FROM matching r {_ORDER} LIMIT {wanted}"
    )
    return text, query.arguments


def _ordered(query: _Query, tenant: str, search: RunSearch) -> list[str]:
    conditions = [f"r.tenant = {query.argument(tenant)}"]
    if search.definition is not None:
        conditions.append(f"r.definition = {query.argument(search.definition)}")
    if search.started_after_us is not None:
        conditions.append(f"r.started_at_us >= {query.argument(search.started_after_us)}::bigint")
    if search.started_before_us is not None:
        conditions.append(f"r.started_at_us < {query.argument(search.started_before_us)}::bigint")
    if search.after is not None:
        started_at_us, run_id = _cursor(search.after)
        at, before = query.argument(started_at_us), query.argument(run_id)
        conditions.append(f"(r.started_at_us, r.run_id) < ({at}::bigint, {before}::uuid)")
    return conditions


def _matching(query: _Query, search: RunSearch) -> list[str]:
    conditions = []
    if search.attributes:
        conditions.append(f"r.search_attributes @> {query.argument(_encode(search.attributes).decode())}::text::jsonb")
    words = words_of([search.text])
    if words:
        wanted = " & ".join(f"'{word}':*" for word in words)
        conditions.append(f"r.words @@ {query.argument(wanted)}::text::tsquery")
    if conditions and not search.statuses and not search.shows_continued:
        conditions.append("r.status <> 'continued'")
    return conditions


def _cursor(after: str) -> tuple[int, uuid.UUID]:
    match = _CURSOR.fullmatch(after)
    if match is None:
        raise InvalidSearchError("after", f"{after!r} is not the `next` of a page")
    return int(match[1]), uuid.UUID(match[2])


async def _fetch(connection: asyncpg.Connection, query: tuple[str, list[object]]) -> list[asyncpg.Record]:
    text, arguments = query
    return await connection.fetch(text, *arguments)


def _page(rows: list[asyncpg.Record], limit: int) -> RunPage:
    runs = tuple(_found(row) for row in rows[:limit])
    last = runs[-1] if len(rows) > limit else None
    return RunPage(runs, None if last is None else f"{last.started_at_us}-{last.run_id}")


def _found(row: asyncpg.Record) -> FoundRun:
    return FoundRun(
        run_id=row[0],
        definition=row[1],
        manifest_hash=row[2],
        status=row[3],
        started_at_us=row[4],
        updated_at_us=row[5],
        ended_at_us=row[6],
        key=row[7],
        parent_run_id=row[8],
        error_type=row[9],
        error_message=row[10],
        search_attributes=_ATTRIBUTES.decode(row[11]),
        version=row[12],
        steps=row[13],
        attempts=row[14],
    )
