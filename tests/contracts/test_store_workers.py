"""Workers that live, and results that wait for their runs: the same on both stores."""

from ductor.journal.commit import AttemptDisposition
from ductor.journal.records import AttemptRow
from ductor.journal.store import Store
from ductor.journal.worker_store import WORKER_BURIED_AFTER_MS, WorkerRecord
from tests.contracts.writers import RunWriter, send_well, started


def worker(worker_id: str, *tasks: str) -> WorkerRecord:
    return WorkerRecord(worker_id=worker_id, queues=("gpu", "default"), tasks=tasks)


async def test_workers_beat_by_the_stores_clock(store: Store):
    before_us = await store.now_us()
    await store.beat_worker(worker("worker-b", "label.render", "zahlung.prüfen"))
    await store.beat_worker(worker("worker-a"))
    first, second = await store.workers()
    assert (first.worker_id, second.worker_id) == ("worker-a", "worker-b")
    assert (second.queues, second.tasks) == (("gpu", "default"), ("label.render", "zahlung.prüfen"))
    assert before_us <= second.started_at_us <= second.heartbeat_at_us <= await store.now_us()

    await store.beat_worker(WorkerRecord(worker_id="worker-b", queues=("cpu",), tasks=("ship",)))
    renewed = (await store.workers())[1]
    assert (renewed.queues, renewed.tasks) == (("cpu",), ("ship",))
    assert renewed.started_at_us == second.started_at_us
    assert renewed.heartbeat_at_us >= second.heartbeat_at_us


async def test_a_worker_that_leaves_is_removed(store: Store):
    await store.beat_worker(worker("worker-a"))
    await store.beat_worker(worker("worker-b"))
    await store.remove_worker("worker-a")
    await store.remove_worker("worker-never-there")
    assert [one.worker_id for one in await store.workers()] == ["worker-b"]


async def test_a_silent_worker_is_not_told_of(store: Store):
    await store.beat_worker(worker("worker-a"))
    assert list(await store.workers(alive_within_ms=-60_000)) == []
    assert len(await store.workers(alive_within_ms=60_000)) == 1


async def test_a_heartbeat_leaves_young_neighbours_alone(store: Store):
    await store.beat_worker(worker("worker-a"))
    await store.beat_worker(worker("worker-b"))
    assert len(await store.workers(alive_within_ms=WORKER_BURIED_AFTER_MS)) == 2


# --- results that wait ------------------------------------------------------------------------------------------------


async def with_result(store: Store) -> RunWriter:
    run = await started(store)
    await store.append_attempt(AttemptRow(run_id=run.run_id, node="pay", generation=1, outcome="succeeded"))
    return run


async def test_runs_whose_results_wait_are_found_whatever_their_partition(store: Store):
    await started(store)
    assert await store.runs_with_results(10) == []
    runs = [await with_result(store) for _ in range(5)]
    await store.append_attempt(AttemptRow(run_id=runs[0].run_id, node="ship", generation=1, outcome="failed"))
    found = await store.runs_with_results(10)
    assert sorted(found) == sorted(run.run_id for run in runs)


async def test_a_result_that_was_applied_does_not_wait(store: Store):
    run, other = await with_result(store), await with_result(store)
    await send_well(store, run.commit(attempts=(AttemptDisposition("pay", 1, "applied"),)))
    assert await store.runs_with_results(10) == [other.run_id]


async def test_a_search_for_results_is_bounded(store: Store):
    runs = [await with_result(store) for _ in range(3)]
    assert sorted(await store.runs_with_results(2)) == sorted(run.run_id for run in runs[:2])
