"""Export files: exact, whole or refused, and imported all or not at all."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from ductor.actors.errors import ImportRefusedError
from ductor.actors.importing import CLOSED_BY_IMPORT, IMPORT_REQUEST_ID, Importer
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verify import prove_rows
from ductor.client import Client
from ductor.journal.chain import link
from ductor.journal.clock import SystemClock
from ductor.journal.errors import ExportFormatError
from ductor.journal.ids import SystemIds
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.recorded import exported_run, exported_runs
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.ductor.recorded_runs import document, edited, engine, export, lines_of
from tests.postgres_fixtures import Database

ROUNDS = """\
ductor: 1
name: rounds
context: {n: 0}
repeat: {until: context.n >= 3, max: 9}
steps: [{ref: a, type: transform, value: 1, effects: {n: "${context.n + 1}"}}]
output: ${context.n}
"""


@virtual_time
async def make_exports() -> dict[str, bytes]:
    async with engine(definitions=[document(), document(ROUNDS)]) as host:
        done = await host.start("order", {"sku": "large"}, key="k-1")
        await done.result()
        waiting = await host.start("order", {"sku": "dear"})
        await waiting.signal("note", "hello")
        await waiting.signal("nobody waits for this", 1)
        await asyncio.sleep(60)
        assert (await waiting.status()).status == "waiting"
        chain = await host.start("rounds")
        assert await chain.result() == 3
        store = host.engine.store
        rounds = [head.run_id for head in await store.chain(chain.run_id, after_iteration=-1, limit=9)]
        return {
            "chain": await export(store, *rounds),
            "begin of chain": await export(store, *rounds[:2]),
            "end of chain": await export(store, *rounds[2:]),
            "closed": await export(store, done.run_id),
            "open": await export(store, waiting.run_id),
            "both": await export(store, done.run_id, waiting.run_id),
        }


@pytest.fixture(scope="module")
def exports() -> dict[str, bytes]:
    return make_exports()


@pytest.fixture
async def memory_store() -> AsyncIterator[Store]:
    store = MemoryStore(SystemClock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def postgres_store(database: Database) -> AsyncIterator[Store]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture(params=["memory_store", "postgres_store"])
def store(request: pytest.FixtureRequest) -> Store:
    opened: Store = request.getfixturevalue(request.param)
    return opened


def importer(store: Store, **options: object) -> Importer:
    return Importer(store, "out.jsonl", ids=SystemIds(), **options)  # type: ignore[arg-type]


async def test_what_is_imported_is_exported_the_same(store: Store, exports: dict[str, bytes]):
    text = exports["closed"]
    (imported,) = await importer(store).run(lambda: lines_of(text))
    assert (imported.is_new, imported.was_closed, imported.status) == (True, False, "completed")
    again = await export(store, imported.run_id)
    assert lines_of(again)[1:] == lines_of(text)[1:]
    assert sum(b'"line":"payload"' in line for line in lines_of(text)) == 1
    head = await store.head(imported.run_id)
    assert head is not None
    assert head.key == "k-1"


async def test_an_imported_chain_is_one_run_as_before(store: Store, exports: dict[str, bytes]):
    imported = await importer(store).run(lambda: lines_of(exports["chain"]))
    first, *_, last = (one.run_id for one in imported)
    assert len(imported) == 3
    async with Client(store) as client:
        run = client.run(first)
        assert await run.result() == 3
        assert (await run.status()).run_id == last
        assert {row.run_id for row in await run.history(whole_chain=True)} == {one.run_id for one in imported}
        assert {row.run_id for row in await run.history()} == {last}


async def test_a_part_of_a_chain_is_refused_without_its_end(store: Store, exports: dict[str, bytes]):
    with pytest.raises(ImportRefusedError, match="continues it, and is neither in the file nor here"):
        await importer(store).run(lambda: lines_of(exports["begin of chain"]))
    await importer(store).run(lambda: lines_of(exports["end of chain"]))
    (first, _) = await importer(store).run(lambda: lines_of(exports["begin of chain"]))
    async with Client(store) as client:
        assert await client.run(first.run_id).result() == 3


async def test_importing_twice_changes_nothing(store: Store, exports: dict[str, bytes]):
    text = exports["closed"]
    await importer(store).run(lambda: lines_of(text))
    (second,) = await importer(store).run(lambda: lines_of(text))
    assert not second.is_new
    assert lines_of(await export(store, second.run_id))[1:] == lines_of(text)[1:]


async def test_an_open_run_is_refused_and_nothing_of_the_file_is_written(store: Store, exports: dict[str, bytes]):
    with pytest.raises(ImportRefusedError, match="it is waiting and would not go on here") as caught:
        await importer(store).run(lambda: lines_of(exports["both"]))
    assert len(caught.value.problems) == 1
    assert lines_of(await export(store))[1:] == [b'{"line":"end","runs":0}\n']


async def test_an_open_run_is_imported_as_closed_and_can_be_proved(store: Store, exports: dict[str, bytes]):
    text = exports["open"]
    (imported,) = await importer(store, closes_open=True).run(lambda: lines_of(text))
    assert (imported.is_new, imported.was_closed, imported.status) == (True, True, "terminated")
    run = exported_run(lines_of(await export(store, imported.run_id)), "again")
    original = exported_run(lines_of(text), "out.jsonl")
    assert run.rows[:-1] == original.rows
    problems: list[tuple[str, str]] = []
    programs = RunPrograms.load(run.definition)
    state = prove_rows(programs, run.run_id, run.rows, run.values(), lambda rule, why: problems.append((rule, why)))
    assert problems == []
    assert (state.status, state.reason) == ("terminated", f"terminate requested by import: {CLOSED_BY_IMPORT}")
    control = await store.control(run.run_id, IMPORT_REQUEST_ID)
    assert control is not None
    assert control.disposition == "applied"
    messages = await store.message_page(run.run_id, limit=10)
    assert [one.disposition for one in messages] == ["consumed", "undelivered"]
    assert list(await store.runs_to_wake(2**62, 9)) == []
    assert not (await importer(store).run(lambda: lines_of(text)))[0].is_new


async def test_a_journal_is_never_overwritten(store: Store, exports: dict[str, bytes]):
    await importer(store).run(lambda: lines_of(exports["closed"]))
    run = exported_run(lines_of(exports["closed"]), "out.jsonl")
    forged = forge(exports["closed"], b"T-10", b"T-11")
    assert exported_run(lines_of(forged), "forged").rows[-1] != run.rows[-1]
    with pytest.raises(ImportRefusedError, match="with another journal"):
        await importer(store).run(lambda: lines_of(forged))
    assert list(await store.history(run.run_id)) == run.rows


def forge(text: bytes, old: bytes, new: bytes) -> bytes:
    """The file with other events and all hashes made to fit."""
    lines, last_hash, run_id = [], b"", ""
    for line in lines_of(text):
        fields = msgspec.json.decode(line)
        if fields["line"] == "run":
            run_id = fields["head"]["run_id"]
        if fields["line"] == "transition":
            fields["events"] = fields["events"].encode().replace(old, new).decode()
            last_hash = link(last_hash, run_id, fields["version"], fields["at_us"], fields["events"].encode())
            fields["hash"] = last_hash.hex()
        lines.append(msgspec.json.encode(fields) + b"\n")
    return b"".join(lines)


def number_of(text: bytes, kind: str, nth: int = 0) -> int:
    found = [number for number, line in enumerate(lines_of(text)) if f'"line":"{kind}"'.encode() in line]
    return found[nth]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: b"".join(lines_of(text)[:-1]), "ends before its `end` line"),
        (lambda text: b"".join(lines_of(text)[1:]), "begins with a header"),
        (lambda text: b"", "ends before its `end` line"),
        (lambda text: text + b"{}\n", "no line of an export"),
        (lambda text: text + lines_of(text)[-1], "nothing may follow"),
        (lambda text: edited(text, 0, format=2), "its format is 2"),
        (lambda text: text.replace(b"T-10", b"T-11"), "the hash of version"),
        (lambda text: edited(text, number_of(text, "transition", 1), at_us=1), "the hash of version 2"),
        (lambda text: edited(text, number_of(text, "transition"), version=2), "version 2 of run"),
        (lambda text: without(text, number_of(text, "transition", 1)), "stands where 2 should"),
        (lambda text: without(text, number_of(text, "transition", -1)), "lines and should have"),
        (lambda text: without(text, number_of(text, "definition")), "definition of run"),
        (lambda text: edited(text, number_of(text, "definition"), manifest="{}"), "does not have the hash"),
        (lambda text: edited(text, number_of(text, "payload"), text="1"), "a payload does not have the hash"),
        (lambda text: edited(text, number_of(text, "end"), runs=7), "counts 7 runs"),
        (lambda text: without(text, number_of(text, "run_end")), "has not ended before it"),
    ],
)
async def test_a_file_that_was_changed_is_refused_with_its_line(exports: dict[str, bytes], change, reason: str):
    text = change(exports["closed"])
    store = MemoryStore(SystemClock())
    await store.open()
    with pytest.raises(ExportFormatError, match=reason) as caught:
        await importer(store).run(lambda: lines_of(text))
    assert caught.value.line > 0
    assert lines_of(await export(store))[1:] == [b'{"line":"end","runs":0}\n']


def without(text: bytes, number: int) -> bytes:
    lines = lines_of(text)
    return b"".join(lines[:number] + lines[number + 1 :])


async def test_every_byte_of_a_journal_counts(exports: dict[str, bytes]):
    lines = lines_of(exports["closed"])
    number = number_of(exports["closed"], "transition", 1)
    fields = msgspec.json.decode(lines[number])
    for place in range(0, len(fields["events"]), 7):
        changed = (
            fields["events"][:place] + ("0" if fields["events"][place] != "0" else "1") + fields["events"][place + 1 :]
        )
        lines[number] = msgspec.json.encode({**fields, "events": changed})
        with pytest.raises(ExportFormatError):
            list(exported_runs(lines, "out.jsonl"))


async def test_a_definition_with_its_source_comes_along(exports: dict[str, bytes]):
    store = MemoryStore(SystemClock())
    await store.open()
    (imported,) = await importer(store).run(lambda: lines_of(exports["closed"]))
    head = await store.head(imported.run_id)
    assert head is not None
    record = await store.manifest(head.manifest_hash)
    assert record is not None
    assert record.source == document().text
    assert await store.definition("default", "order") is None
