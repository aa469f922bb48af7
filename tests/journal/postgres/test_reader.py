"""The group reader: many loads, one query, and never one that is older than its caller's question."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.codec import encode_events
from ductor.journal.commit import Appended, Payload
from ductor.journal.errors import OverloadedError, StoreUnavailableError, ValueRefusedError
from ductor.journal.events import NodeSettled, PayloadRef
from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres import database as database_module
from ductor.journal.postgres import reader as reader_module
from ductor.journal.postgres.database import Database as Pool
from ductor.journal.postgres.reader import GROUP_RUNS, GROUPS_AT_ONCE, inputs
from ductor.journal.records import RunFilter, Snapshot
from ductor.journal.state import FOLD_REVISION
from tests.journal.postgres.commits import answered, start, started_runs, tick
from tests.postgres_fixtures import Database

NAMES_A_VALUE = encode_events([NodeSettled(node="a", status="succeeded", output_ref=PayloadRef("h", 10))])
NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the queries that were sent, in order."""
    sent: list[str] = []
    fetch = Pool.fetch

    async def noted(self: Pool, query: str, **values: object) -> list[asyncpg.Record]:
        sent.append(query)
        return await fetch(self, query, **values)

    monkeypatch.setattr(Pool, "fetch", noted)
    return sent


async def test_loads_asked_for_together_are_one_query(store: PostgresStore, queries: list[str]) -> None:
    runs = await started_runs(store, 50)
    loaded = await asyncio.gather(*(store.load(run_id) for run_id in [*runs, NOBODY, runs[0]]))
    assert [run and run.head.run_id for run in loaded] == [*runs, None, runs[0]]
    assert queries == ["load"]


async def test_groups_are_bounded(store: PostgresStore, queries: list[str]) -> None:
    runs = await started_runs(store, GROUP_RUNS + 1)
    loaded = await asyncio.gather(*(store.load(run_id) for run_id in runs))
    assert all(loaded)
    assert queries == ["load", "load"]


async def test_a_load_sees_what_was_committed_before_it_was_asked(store: PostgresStore) -> None:
    (run_id,) = await started_runs(store, 1)
    for version in range(2, 30):
        earlier = asyncio.create_task(store.load(run_id))
        assert await answered(store, tick(run_id, version)) == [Appended(version)]
        loaded, _ = await asyncio.gather(store.load(run_id), earlier)
        assert loaded is not None
        assert len(loaded.tail) == version


async def test_each_run_gets_its_own_rows(store: PostgresStore) -> None:
    runs = await started_runs(store, 3)
    await answered(
        store,
        tick(runs[0], 2, events=NAMES_A_VALUE, payloads=(Payload("h", b'{"a": 1.0}'),)),
        tick(runs[1], 2, events=b"[ 1]"),
    )
    await store.save_snapshot(Snapshot(run_id=runs[1], version=1, fold_revision=FOLD_REVISION, state=b"\x00s"))
    await store.save_snapshot(Snapshot(run_id=runs[2], version=1, fold_revision=FOLD_REVISION + 1, state=b"later"))
    first, second, third = await asyncio.gather(*(store.load(run_id) for run_id in runs))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [row.version for row in first.tail] == [1, 2]
    assert first.payloads == (Payload("h", b'{"a": 1.0}'),)
    assert second.snapshot is not None
    assert (second.snapshot.version, second.snapshot.state) == (1, b"\x00s")
    assert [(row.version, row.events) for row in second.tail] == [(2, b"[ 1]")]
    assert third.snapshot is None, "another fold's snapshot means nothing here"
    assert len(third.tail) == 1


async def test_a_closed_store_fails_every_load(database: Database) -> None:
    store = PostgresStore(database.dsn)
    results = await asyncio.gather(store.load(NOBODY), store.load(NOBODY), return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailableError] * 2


async def test_a_caller_that_gives_up_does_not_disturb_the_others(store: PostgresStore) -> None:
    runs = await started_runs(store, 2)
    impatient, patient = (asyncio.create_task(store.load(run_id)) for run_id in runs)
    await asyncio.sleep(0)
    impatient.cancel()
    loaded = await patient
    assert loaded is not None
    assert loaded.head.run_id == runs[1]


async def test_what_is_no_run_id_names_no_run(store: PostgresStore) -> None:
    for nonsense in ("", "nonsense", "01890000-0000-7000-8000-00000000000g", NOBODY.upper() + "\x00"):
        assert await store.load(nonsense) is None
        assert await store.head(nonsense) is None
        assert await store.history(nonsense) == []


async def test_an_argument_that_the_database_refuses_is_named(store: PostgresStore) -> None:
    with pytest.raises(ValueRefusedError) as refused:
        await store.heads(RunFilter(tenant="a\x00b"))
    assert refused.value.path == "tenant" or "0x00" in refused.value.reason


async def test_waiting_queries_are_bounded(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "WAITING_LIMIT", 3)
    results = await asyncio.gather(*(store.now_us() for _ in range(5)), return_exceptions=True)
    assert [type(result) for result in results].count(OverloadedError) == 2


async def test_a_start_key_is_found(store: PostgresStore) -> None:
    first = start(key="k")
    await answered(store, first)
    assert await store.find_start_key("acme", "order", "k") == first.run_id
    assert await store.find_start_key("other", "order", "k") is None


class GatedDatabase:
    """Answers what it was asked when its gate opens, all at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def fetch(self, query: str, **values: object) -> list[asyncpg.Record]:
        assert query == "inputs"
        self.asked.release()
        await self.gate.wait()
        return []


async def test_who_asks_again_at_once_is_answered_when_all_readers_end_together() -> None:
    gated = GatedDatabase()
    reader = inputs(gated)  # type: ignore[arg-type]  # all of a database that a reader uses

    async def ask(run_id: str, times: int) -> None:
        for _ in range(times):
            await reader.read(run_id)

    asking = []
    for number in range(GROUPS_AT_ONCE):  # each in a group of its own; the first one asks again
        asking.append(asyncio.create_task(ask(f"run-{number}", 1 if number else 2)))
        await gated.asked.acquire()
    gated.gate.set()
    await asyncio.wait_for(asyncio.gather(*asking), 5)


async def test_large_values_are_read_in_pages_of_bounded_size(
    store: PostgresStore, queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_PAYLOAD_PAGE_BYTES", 19)
    runs = await started_runs(store, 3)
    payload = Payload("h", b'{"a": 1.0}')
    await answered(store, *(tick(run_id, 2, events=NAMES_A_VALUE, payloads=(payload,)) for run_id in runs))
    loaded = await asyncio.gather(*(store.load(run_id) for run_id in runs))
    assert [run.payloads for run in loaded if run is not None] == [(payload,)] * 3
    assert queries == ["load", "payloads", "payloads", "payloads"]


async def test_snapshots_of_old_revisions_go(store: PostgresStore, database: Database) -> None:
    (run_id,) = await started_runs(store, 1)
    for revision in (FOLD_REVISION - 2, FOLD_REVISION - 1, FOLD_REVISION, FOLD_REVISION + 1):
        await store.save_snapshot(Snapshot(run_id=run_id, version=1, fold_revision=revision, state=b"s"))
    connection = await asyncpg.connect(database.dsn)
    try:
        rows = await connection.fetch("SELECT fold_revision FROM ductor.eec_workflow_snapshot ORDER BY 1")
    finally:
        await connection.close()
    assert [row[0] for row in rows] == [FOLD_REVISION, FOLD_REVISION + 1]
