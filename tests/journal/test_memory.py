"""What concerns the store in memory alone; the rest is in `tests/contracts`."""

import asyncio

import pytest

from ductor.journal.commit import Appended, CommitAnswer, TimerUpdate
from ductor.journal.errors import OverloadedError, ValueRefusedError
from ductor.journal.memory import MemoryStore
from ductor.journal.records import FeedPosition, HostRecord
from ductor.journal.worker_store import WORKER_BURIED_AFTER_MS, WorkerRecord
from ductor.testing.clock import VirtualClock
from tests.contracts.writers import START_US, RunWriter, send, send_well, started


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def store(clock: VirtualClock) -> MemoryStore:
    store = MemoryStore(clock, queue_limit=3)
    await store.open()
    return store


async def test_its_clock_is_the_one_it_was_given(store: MemoryStore, clock: VirtualClock):
    await store.beat(HostRecord(host_id="host-a", started_at_us=0, heartbeat_at_us=0))
    clock.advance(10)
    await store.beat(HostRecord(host_id="host-b", started_at_us=0, heartbeat_at_us=0))
    assert [host.host_id for host in await store.hosts(alive_within_ms=10_000)] == ["host-a", "host-b"]
    clock.advance(0.001)
    assert [host.host_id for host in await store.hosts(alive_within_ms=10_000)] == ["host-b"]
    assert await store.now_us() == clock.now_us()


async def test_workers_that_are_silent_for_long_are_removed(store: MemoryStore, clock: VirtualClock):
    await store.beat_worker(WorkerRecord(worker_id="worker-a", queues=("gpu",), tasks=()))
    clock.advance(WORKER_BURIED_AFTER_MS / 1_000)
    await store.beat_worker(WorkerRecord(worker_id="worker-b", queues=("gpu",), tasks=()))
    assert [worker.worker_id for worker in await store.workers()] == ["worker-b"]
    assert len(await store.workers(alive_within_ms=2 * WORKER_BURIED_AFTER_MS)) == 2
    clock.advance(0.001)
    await store.beat_worker(WorkerRecord(worker_id="worker-b", queues=("gpu",), tasks=()))
    assert [worker.worker_id for worker in await store.workers(alive_within_ms=2**31)] == ["worker-b"]


async def test_the_bound_of_its_queue(store: MemoryStore):
    run = await started(store)
    answers: list[CommitAnswer] = []
    for _ in range(3):
        store.commit(RunWriter().start(), answers.append)
    assert (await store.health()).queued_commits == 3
    with pytest.raises(OverloadedError) as overload:
        store.commit(RunWriter().start(), answers.append)
    assert (overload.value.queued, overload.value.limit) == (3, 3)
    assert await send(store, run.commit()) == Appended(2)
    assert answers == [Appended(1)] * 3
    await started(store)


async def test_a_commit_is_seen_by_nobody_before_it_is_answered(store: MemoryStore):
    run = RunWriter()
    answers: list[CommitAnswer] = []
    store.commit(run.start(), answers.append)
    assert await store.head(run.run_id) is None
    await store.close()
    assert answers == [Appended(1)]


async def test_a_batch_is_one_transaction_of_the_feed(store: MemoryStore):
    run = RunWriter()
    for commit in (run.start(), run.commit()):
        store.commit(commit, lambda answer: None)
    await send_well(store, run.commit())
    await send_well(store, run.commit(timer=TimerUpdate(START_US)))
    positions = [entry.position for entry in await store.feed(FeedPosition(), 10)]
    assert [(position.transaction_id, position.position) for position in positions] == [(1, 1), (1, 2), (1, 3), (2, 4)]


async def test_what_is_no_json_is_refused_at_the_door(store: MemoryStore):
    run = await started(store)
    with pytest.raises(ValueRefusedError):
        await store.request_control(run.control("x" * 256))
    with pytest.raises(ValueRefusedError):
        await store.request_control(run.control(arguments={"at": float("nan")}))
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.controls == ()


def test_what_a_dead_loop_had_queued_is_lost_and_the_next_loop_is_served():
    """A host that is killed takes the commits on their way along; the store lives on."""
    store, lost, kept = MemoryStore(VirtualClock()), RunWriter(), RunWriter()
    answers: list[CommitAnswer] = []

    async def die() -> None:
        await store.open()
        store.commit(lost.start(), answers.append)
        asyncio.get_running_loop().stop()

    killed = asyncio.new_event_loop()
    life = killed.create_task(die())
    killed.run_forever()
    assert life.done()
    killed.close()

    async def live_on() -> None:
        await asyncio.wait_for(send_well(store, kept.start()), 5)
        assert await store.head(lost.run_id) is None

    asyncio.run(live_on())
    assert answers == []
