"""A run whose beginning was compacted away: looked at, proved, exported, imported, compared."""

import asyncio

import pytest

from ductor.actors.importing import Importer
from ductor.journal.clock import SystemClock
from ductor.journal.errors import ExportFormatError, MissingVersionError
from ductor.journal.ids import SystemIds
from ductor.journal.memory import MemoryStore
from ductor.journal.recorded import exported_run
from ductor.replay import Replay
from ductor.testing import virtual_time
from tests.ductor.recorded_runs import engine, export


@virtual_time
async def compacted_export() -> tuple[bytes, int]:
    """An export of a completed run of which the first rows are gone, and where its history begins."""
    async with engine() as host:
        run = await host.start("order", {"sku": "dear"}, key="k-1")
        await asyncio.sleep(10)  # virtual: everything that can happen has happened
        receipt = await run.compact(by="ann", reason="long")
        await asyncio.sleep(10)
        control = await run.control(receipt.request_id)
        assert control is not None
        assert control.disposition == "applied"
        store = host.engine.store
        begins_at = (await store.history(run.run_id))[-1].version
        assert await store.remove_compacted_rows(run.run_id, before_us=host.clock.now_us()) == begins_at - 1
        await run.approve("approve", by="ann")
        await run.result()
        return await export(store, run.run_id), begins_at


@pytest.fixture(scope="module")
def exported() -> tuple[bytes, int]:
    return compacted_export()


def lines_of(text: bytes) -> list[bytes]:
    return text.splitlines(keepends=True)


def test_it_is_proved_and_looked_at_from_where_it_begins(exported: tuple[bytes, int]):
    text, begins_at = exported
    replay = Replay(exported_run(lines_of(text), "out.jsonl"))
    assert replay.run.first_version == begins_at > 1
    verified = replay.verify(receipt=replay.receipt())
    assert (verified.holds, verified.is_recomputed, verified.status) == (True, True, "completed")
    assert replay.at(begins_at).nodes["reserve"].status == "succeeded"
    assert replay.view(begins_at).status == "waiting"
    assert [state.version for state in replay.states()] == list(range(begins_at, replay.version + 1))
    assert replay.diff(begins_at, replay.version)
    assert replay.events(begins_at)[0].__class__.__name__ == "RunCompacted"
    assert not replay.at(0).nodes
    for version in (1, begins_at - 1):
        with pytest.raises(MissingVersionError, match=f"begins at version {begins_at}"):
            replay.at(version)
        with pytest.raises(MissingVersionError, match="compacted away"):
            replay.events(version)


def test_it_is_compared(exported: tuple[bytes, int]):
    text, _ = exported
    replay, again = (Replay(exported_run(lines_of(text), "out.jsonl")) for _ in range(2))
    assert replay.compare(again).version is None
    assert [attempt.task for attempt in replay.attempts("ship")] == ["ship"]
    assert replay.attempts("reserve") == []


async def test_it_is_imported_and_exported_the_same(exported: tuple[bytes, int]):
    text, begins_at = exported
    store = MemoryStore(SystemClock())
    await store.open()
    (imported,) = await Importer(store, "out.jsonl", ids=SystemIds()).run(lambda: lines_of(text))
    assert (imported.is_new, imported.status) == (True, "completed")
    assert lines_of(await export(store, imported.run_id))[1:] == lines_of(text)[1:]
    assert (await store.history(imported.run_id))[0].version == begins_at
    await store.close()


def test_a_file_whose_compacted_state_was_changed_is_refused(exported: tuple[bytes, int]):
    text, begins_at = exported
    forged = text.replace(rb"\"total\":1000", rb"\"total\":1001", 1)
    assert forged != text
    with pytest.raises(ExportFormatError, match=f"version {begins_at}"):
        exported_run(lines_of(forged), "forged")
