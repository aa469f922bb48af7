"""Removal of what compacted rows stand for: the same in every store."""

from typing import Any

from ductor.journal.codec import encode_events, encode_state
from ductor.journal.commit import Appended, Commit, Conflict, Payload
from ductor.journal.compaction import compacted
from ductor.journal.events import Message, NodeSettled, PayloadRef
from ductor.journal.records import AttemptRow, Snapshot
from ductor.journal.replay import loaded_state, state_at, verify_chain
from ductor.journal.state import FOLD_REVISION
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send, send_well, started, whole_feed

EVER = START_US * 2


def settles(node: str, hash: str) -> bytes:
    """A row in which a step settles with a large output."""
    return encode_events([NodeSettled(node=node, status="succeeded", output_ref=PayloadRef(hash, 1))])


async def compact(store: Store, run: RunWriter) -> Commit:
    """Write the row that stands for all rows so far."""
    rows = await store.history(run.run_id, limit=10_000)
    commit = run.commit(events=encode_events([compacted(state_at(run.run_id, rows))]))
    await send_well(store, commit)
    return commit


async def long_run(store: Store, rows: int = 7, **fields: Any) -> RunWriter:
    """A run with so many rows."""
    run = await started(store, **fields)
    for _ in range(rows - 1):
        await send_well(store, run.commit())
    return run


async def test_rows_go_in_batches_oldest_first_and_the_run_goes_on(store: Store):
    run = await long_run(store)
    assert await store.remove_compacted_rows(run.run_id, before_us=EVER) == 0
    await compact(store, run)
    await send_well(store, run.commit())
    expected = state_at(run.run_id, await store.history(run.run_id))

    assert await store.remove_compacted_rows(run.run_id, before_us=EVER, limit=3) == 3
    assert [entry.transition.version for entry in await whole_feed(store)] == [4, 5, 6, 7, 8, 9]
    assert [row.version for row in await store.history(run.run_id)] == [8, 9]
    assert [row.version for row in await store.history(run.run_id, after_version=5, limit=1)] == [8]
    assert await store.remove_compacted_rows(run.run_id, before_us=EVER) == 4
    assert await store.remove_compacted_rows(run.run_id, before_us=EVER) == 0

    rows = await store.history(run.run_id)
    assert [row.version for row in rows] == [8, 9]
    assert verify_chain(run.run_id, rows) == (9, run.last_hash)
    loaded, inputs = await store.load(run.run_id), await store.inputs(run.run_id)
    assert loaded is not None
    assert inputs is not None
    assert [row.version for row in loaded.tail] == [8, 9]
    assert loaded_state(loaded) == expected
    assert inputs.head_version == 9
    assert await send(store, run.commit()) == Appended(10)
    assert [entry.transition.version for entry in await whole_feed(store)] == [8, 9, 10]


async def test_no_version_is_won_in_a_hole(store: Store):
    run = await long_run(store, 4)
    await compact(store, run)
    await store.remove_compacted_rows(run.run_id, before_us=EVER)
    zombie = RunWriter(run.run_id)
    for version in (2, 3, 4, 5, 7):
        zombie.version = version - 1
        assert await send(store, zombie.commit()) == Conflict(run.run_id, version)
    assert [row.version for row in await store.history(run.run_id)] == [5]


async def test_a_commit_sent_again_after_its_predecessors_are_gone_is_known(store: Store):
    run = await long_run(store, 4)
    commit = await compact(store, run)
    await store.remove_compacted_rows(run.run_id, before_us=EVER)
    assert await send(store, commit) == Appended(5)


async def test_rows_that_somebody_may_be_reading_stay(store: Store):
    run = await long_run(store, 4)
    await compact(store, run)
    assert await store.remove_compacted_rows(run.run_id, before_us=START_US + 3) == 2
    assert [entry.transition.version for entry in await whole_feed(store)] == [3, 4, 5]


async def test_a_second_compaction_takes_the_first_one_along(store: Store):
    run = await long_run(store, 3)
    await compact(store, run)
    await store.remove_compacted_rows(run.run_id, before_us=EVER)
    await send_well(store, run.commit())
    await compact(store, run)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert [row.version for row in loaded.tail] == [6]
    assert [row.version for row in await store.history(run.run_id)] == [4, 5, 6]
    assert await store.remove_compacted_rows(run.run_id, before_us=EVER, limit=1) == 1
    assert [row.version for row in await store.history(run.run_id)] == [6]
    assert await store.remove_compacted_rows(run.run_id, before_us=EVER) == 1
    assert [row.version for row in await store.history(run.run_id)] == [6]


async def test_a_snapshot_older_than_the_compaction_is_gone_past(store: Store):
    run = await long_run(store, 5)
    state = state_at(run.run_id, await store.history(run.run_id), 2)
    await store.save_snapshot(
        Snapshot(run_id=run.run_id, version=2, fold_revision=FOLD_REVISION, state=encode_state(state))
    )
    await compact(store, run)
    await store.remove_compacted_rows(run.run_id, before_us=EVER, limit=3)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert (loaded.snapshot and loaded.snapshot.version, [row.version for row in loaded.tail]) == (2, [6])
    assert loaded_state(loaded).version == 6


async def test_large_values_go_with_the_last_row_that_named_them(store: Store):
    hashes = ("left", "kept", "attempt", "sent", "late")
    payloads = tuple(Payload(hash, b"1") for hash in hashes)
    run = await started(store, events=settles("a", "left"), payloads=payloads)
    await send_well(store, run.commit(events=settles("b", "kept")))
    await send_well(store, run.commit(events=settles("a", "late")))
    await send_well(store, run.commit(events=encode_events([NodeSettled(node="a", status="failed", output=1)])))
    await store.append_attempt(
        AttemptRow(
            run_id=run.run_id,
            node="n",
            generation=1,
            outcome="succeeded",
            output_ref=PayloadRef("attempt", 1),
            worker="w",
            started_at_us=1,
            finished_at_us=2,
        )
    )
    await store.send_message(
        run.run_id, Message(id="m", kind="signal", payload_ref=PayloadRef("sent", 1)), (Payload("sent", b"1"),)
    )
    await compact(store, run)
    await send_well(store, run.commit(events=settles("c", "late")))

    async def left() -> list[str]:
        return [payload.hash for payload in await store.payload_page(run.run_id, limit=10)]

    assert await store.remove_compacted_rows(run.run_id, before_us=EVER, limit=2) == 2
    assert await left() == sorted(hashes)
    while await store.remove_compacted_rows(run.run_id, before_us=EVER):
        pass
    assert await left() == sorted({*hashes} - {"left"})
    assert [row.version for row in await store.history(run.run_id)] == [5, 6]


async def test_compacted_runs_are_found_until_nothing_is_left_to_remove(store: Store):
    runs = sorted([await long_run(store, 3) for _ in range(4)], key=lambda run: run.run_id)
    for run in runs[1:]:
        await compact(store, run)
    await store.remove_compacted_rows(runs[2].run_id, before_us=EVER)

    found = await store.compacted_runs(None, 2)
    assert [(run.run_id, run.version, run.has_older_rows) for run in found] == [
        (runs[1].run_id, 4, True),
        (runs[2].run_id, 4, False),
    ]
    found = await store.compacted_runs(found[-1].run_id, 2)
    assert [(run.run_id, run.has_older_rows) for run in found] == [(runs[3].run_id, True)]


async def test_a_run_that_is_not_there_has_nothing_to_remove(store: Store):
    assert await store.remove_compacted_rows(RunWriter().run_id, before_us=EVER) == 0
    assert await store.remove_compacted_rows("no-id", before_us=EVER) == 0
