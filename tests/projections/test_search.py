"""Search: what matches is found, by walking and by index alike, page by page; what can't be asked is refused."""

import random
from typing import Any

import asyncpg
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres import PostgresStore
from ductor.projections import search as searching
from ductor.projections.errors import InvalidSearchError, ProjectionNotReadyError
from ductor.projections.read_models import ReadModels
from ductor.projections.runs import RunsProjection, words_of
from ductor.projections.search import FoundRun, RunSearch
from tests.projections.projecting import project

COUNT = 400
STATUSES = ("completed", "failed", "running", "continued")
RUN_ID = "0198f5d2-0000-7000-8000-{:012x}"


class Kept(msgspec.Struct, frozen=True):
    number: int
    tenant: str
    definition: str
    status: str
    attributes: dict[str, Any]
    error: str | None


def kept_runs() -> list[Kept]:
    chance = random.Random(7)
    return [
        Kept(
            number,
            chance.choice(("default", "default", "other")),
            chance.choice(("order", "refund")),
            (status := chance.choice(STATUSES)),
            {"customer": f"c-{chance.randrange(20)}", "region": chance.choice(("eu", "us")), "tags": ["a", "b"]},
            "card declined" if status == "failed" else None,
        )
        for number in range(COUNT)
    ]


KEPT = kept_runs()


@pytest.fixture
async def models(store: PostgresStore, connection: asyncpg.Connection):
    await project(store, [RunsProjection()])
    await connection.executemany(
        "INSERT INTO ductor_runs_1.run SELECT $1, $2, $3, 'm', $4, $5, $5, NULL, 'key-' || $6::text, NULL, NULL, NULL,"
        " CASE WHEN $7::text IS NOT NULL THEN 'CardError' END, $7, $8, 1, 1, 1, 1, array_to_tsvector($9)",
        [
            (
                RUN_ID.format(run.number),
                run.tenant,
                run.definition,
                run.status,
                run.number // 3,  # some begin at the same time
                str(run.number),
                run.error,
                msgspec.json.encode(run.attributes).decode(),
                words_of([run.definition, f"key-{run.number}", run.attributes["customer"], run.error or ""]),
            )
            for run in KEPT
        ],
    )
    models = ReadModels(store)
    yield models
    await models.close()


def matching(search: RunSearch) -> list[str]:
    """Ids of what must be found, newest first."""
    found = [
        run
        for run in KEPT
        if run.tenant == "default"
        and search.definition in (None, run.definition)
        and (not search.statuses or run.status in search.statuses)
        and (search.statuses or search.shows_continued or run.status != "continued")
        and (search.started_after_us is None or run.number // 3 >= search.started_after_us)
        and (search.started_before_us is None or run.number // 3 < search.started_before_us)
        and all(run.attributes.get(name) == value for name, value in search.attributes.items() if name != "tags")
        and ("declined" not in search.text or run.error is not None)
    ]
    return [RUN_ID.format(run.number) for run in sorted(found, key=lambda run: (run.number // 3, run.number))][::-1]


async def all_pages(models: ReadModels, search: RunSearch) -> list[FoundRun]:
    runs: list[FoundRun] = []
    while True:
        page = await models.search_runs("default", search)
        runs.extend(page.runs)
        if page.next is None:
            return runs
        search = msgspec.structs.replace(search, after=page.next)


SEARCHES = (
    RunSearch(),
    RunSearch(definition="order"),
    RunSearch(statuses=("failed",)),
    RunSearch(statuses=("failed", "running"), definition="refund"),
    RunSearch(started_after_us=20, started_before_us=90),
    RunSearch(attributes={"customer": "c-3"}),
    RunSearch(attributes={"region": "eu"}, statuses=("completed", "failed")),
    RunSearch(attributes={"tags": ["a"], "region": "us"}, definition="order"),
    RunSearch(attributes={"tags": ["b"]}),
    RunSearch(attributes={"customer": "nobody"}),
    RunSearch(shows_continued=True),
    RunSearch(shows_continued=True, attributes={"region": "eu"}),
    RunSearch(statuses=("continued",), attributes={"region": "eu"}),
    RunSearch(text="card DECL", statuses=("failed",)),
    RunSearch(text="declined", attributes={"region": "eu"}),
)


@pytest.mark.parametrize("walked", [3, 4_000], ids=["mostly by index", "mostly by walking"])
async def test_what_matches_is_found_on_some_page(models: ReadModels, monkeypatch: pytest.MonkeyPatch, walked: int):
    monkeypatch.setattr(searching, "WALKED_RUNS", walked)
    for search in SEARCHES:
        found = await all_pages(models, msgspec.structs.replace(search, limit=17))
        expected = matching(search)
        assert [run.run_id for run in found] == expected, search
        assert expected or search.attributes == {"customer": "nobody"}


async def test_a_found_run_says_what_the_model_knows(models: ReadModels):
    run = (await models.search_runs("default", RunSearch(text="declined", limit=1))).runs[0]
    kept = KEPT[int(run.run_id[-12:], 16)]
    assert (run.error_type, run.error_message, run.status) == ("CardError", "card declined", "failed")
    assert (run.search_attributes, run.key) == (kept.attributes, f"key-{kept.number}")


@pytest.mark.parametrize(
    ("search", "field"),
    [
        (RunSearch(limit=0), "limit"),
        (RunSearch(limit=1_001), "limit"),
        (RunSearch(text="--"), "text"),
        (RunSearch(text=" ".join(map(str, range(21)))), "text"),
        (RunSearch(after="yesterday"), "after"),
        (RunSearch(attributes={str(number): 1 for number in range(21)}), "attributes"),
    ],
)
async def test_what_cannot_be_asked_is_refused(models: ReadModels, search: RunSearch, field: str):
    with pytest.raises(InvalidSearchError) as refused:
        await models.search_runs("default", search)
    assert refused.value.field == field


@given(st.text(max_size=60))
def test_any_text_makes_words_that_the_database_takes(text: str):
    for word in words_of([text]):
        assert not set(word) & set("'\\:&|!()<> \0")


async def test_a_model_that_is_not_complete_says_so(store: PostgresStore):
    models = ReadModels(store)
    with pytest.raises(ProjectionNotReadyError, match="runs"):
        await models.search_runs("default", RunSearch())
    await models.close()


async def test_a_database_that_is_away_is_named(store: PostgresStore):
    models = ReadModels(PostgresStore("postgresql://postgres@127.0.0.1:1/nowhere"))
    with pytest.raises(StoreUnavailableError):
        await models.search_runs("default", RunSearch())
    await models.close()


async def test_a_search_goes_on_when_the_model_is_replaced(
    store: PostgresStore, connection: asyncpg.Connection, models: ReadModels
):
    assert len((await models.search_runs("default", RunSearch())).runs) == 50
    await models.rebuild("runs")
    await project(store, [RunsProjection()])
    assert (await models.search_runs("default", RunSearch())).runs == ()  # there are no journals of these runs
