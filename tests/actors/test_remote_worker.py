"""A worker process: leases, what becomes of them when workers, queue or database go away, and how it leaves."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from ductor.actors.context import TaskContext
from ductor.actors.errors import InvalidSettingError
from ductor.actors.queue.distributed import MAX_DELIVERIES
from ductor.actors.remote_worker import RemoteWorker
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.actors.worker_options import WorkerOptions
from ductor.journal.commit import Payload
from ductor.journal.errors import StoreUnavailableError, ValueRefusedError
from ductor.journal.records import AttemptRow
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, WrappedStore
from tests.actors.remote_bench import RemoteBench

OPTIONS = WorkerOptions(visibility_ms=15_000, drain_ms=2_000)


class AwayStore(WrappedStore):
    """Takes no attempt rows while it is away, and refuses the first result ever if told to."""

    is_away = False
    refuses_first = False

    async def append_attempt(self, row: AttemptRow, payloads: Sequence[Payload] = ()) -> None:
        if self.is_away:
            raise StoreUnavailableError("the test has it away")
        if self.refuses_first:
            self.refuses_first = False
            raise ValueRefusedError("output", "", "the test does not like it")
        await self.inner.append_attempt(row, payloads)


def sleeper(calls: list[str], seconds: float) -> Task[..., Any]:
    """A handler that takes a while, and notes its idempotency keys."""

    @task("work")
    async def work(context: TaskContext) -> str:
        calls.append(context.idempotency_key)
        await asyncio.sleep(seconds)
        return "done"

    return work


def lost(worker: RemoteWorker) -> None:
    """As kill -9 leaves it: nobody renews, nobody reports."""
    for one in (*worker._tasks, *worker._beside):
        one.cancel()
    assert worker._pool is not None
    for token in tuple(worker._held):
        worker._pool.abandon(token)
    worker._held.clear()


@virtual_time
async def test_a_lease_is_renewed_for_as_long_as_the_handler_takes():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host, bench.worker(sleeper(calls, 300), options=OPTIONS):
        run_id = (await host.start("subject")).run_id
        async with bench.worker(sleeper(calls, 0), options=OPTIONS):
            assert (await host.outcome(run_id, timeout_ms=310_000)).status == "completed"
    assert calls == [f"{run_id}/a/1"]


@virtual_time
async def test_what_a_dead_worker_had_goes_to_another_one_under_the_same_token():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        async with bench.worker(sleeper(calls, 1_000), options=OPTIONS) as worker:
            await asyncio.sleep(1)
            lost(worker)
            async with bench.worker(sleeper(calls, 1), options=OPTIONS):
                assert (await host.outcome(run_id, timeout_ms=20_000)).status == "completed"
    assert calls == [f"{run_id}/a/1"] * 2


@virtual_time
async def test_what_kills_its_workers_is_set_aside_and_can_be_replayed():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        for _ in range(MAX_DELIVERIES):
            async with bench.worker(sleeper(calls, 1_000), options=OPTIONS) as worker:
                await asyncio.sleep(1)
                lost(worker)
            bench.queue.expire_leases()
        async with bench.worker(sleeper(calls, 0), options=OPTIONS):
            await asyncio.sleep(60)
            (letter,) = await bench.queue.dead_letters("default")
            assert letter.item.token == f"{run_id}/a/1"
            assert len(calls) == MAX_DELIVERIES
            assert await bench.queue.replay("default", [letter.item.token]) == [True]
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_a_worker_that_leaves_gives_back_what_it_has_not_begun_and_what_does_not_end():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host:
        runs = [(await host.start("subject")).run_id for _ in range(3)]
        async with bench.worker(sleeper(calls, 1_000), options=WorkerOptions(concurrency=2, drain_ms=2_000)):
            await asyncio.sleep(1)
            assert len(calls) == 2
        depth = await bench.queue.depth("default")
        assert (depth.queued, depth.in_flight) == (3, 0)
        async with bench.worker(sleeper([], 0)):
            for run_id in runs:
                assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_a_worker_that_leaves_lets_attempts_finish():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host:
        run_id = (await host.start("subject")).run_id
        async with bench.worker(sleeper(calls, 1.5), options=OPTIONS):
            await asyncio.sleep(1)
        assert (await host.outcome(run_id, timeout_ms=2_000)).status == "completed"
    assert len(calls) == 1


@virtual_time
async def test_results_are_kept_while_the_database_is_away(caplog: pytest.LogCaptureFixture):
    bench, calls = RemoteBench(), list[str]()
    store = AwayStore(bench.store)
    async with bench.host(ONE) as host:
        worker = RemoteWorker(
            store,
            bench.queue,
            TaskRegistry([sleeper(calls, 1)]),
            queues=("default",),
            clock=bench.clock,
            options=OPTIONS,
        )
        await worker.start()
        store.is_away = True
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(120)
        assert (await worker.health()).in_keeping == 1
        assert (await bench.queue.depth("default")).in_flight == 1
        store.is_away = False
        assert (await host.outcome(run_id, timeout_ms=7_000)).status == "completed"
        assert len(calls) == 1
        await worker.stop()
    lines = [one.getMessage() for one in caplog.records if one.name == "ductor.actors.remote_reports"]
    assert [line.partition(":")[0] for line in lines] == [
        "results stay in memory until the database takes them",
        "the database has the results that stayed in memory, 1 of them",
    ]


@virtual_time
async def test_a_result_that_the_database_refuses_is_a_failure():
    bench = RemoteBench()
    store = AwayStore(bench.store)
    store.refuses_first = True
    async with bench.host(ONE) as host:
        registry = TaskRegistry([sleeper([], 0)])
        worker = RemoteWorker(store, bench.queue, registry, queues=("default",), clock=bench.clock)
        await worker.start()
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)
        assert outcome.error is not None
        assert outcome.error.type == "ValueRefusedError"
        await worker.stop()


@virtual_time
async def test_work_goes_on_when_the_queue_forgets_it():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host, bench.worker(sleeper(calls, 60), options=OPTIONS):
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        bench.queue.lose_everything()
        assert (await host.outcome(run_id, timeout_ms=65_000)).status == "completed"
    assert len(calls) == 1


@virtual_time
async def test_work_goes_on_while_the_queue_is_away():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host, bench.worker(sleeper(calls, 10), options=OPTIONS):
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        bench.queue.is_away = True
        assert (await host.outcome(run_id, timeout_ms=11_000)).status == "completed"
        bench.queue.is_away = False
    assert len(calls) == 1


@virtual_time
async def test_a_worker_whose_lease_is_somebody_elses_stops():
    bench, calls, stopped = RemoteBench(), list[str](), list[str]()

    @task("work")
    async def zombie(context: TaskContext) -> str:
        try:
            await asyncio.sleep(1_000)
        finally:
            stopped.append(context.idempotency_key)
        return "too late"

    async with bench.host(ONE) as host, bench.worker(zombie, options=WorkerOptions(concurrency=1, drain_ms=1_000)):
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        bench.queue.expire_leases()
        async with bench.worker(sleeper(calls, 20), options=OPTIONS):
            outcome = await host.outcome(run_id, timeout_ms=40_000)
            assert outcome.output == {"a": "done"}
            assert stopped == [f"{run_id}/a/1"]


@virtual_time
async def test_what_has_a_result_is_acknowledged_and_not_run_again():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host:
        async with bench.worker(sleeper(calls, 1), options=OPTIONS) as worker:
            run_id = (await host.start("subject")).run_id
            await asyncio.sleep(0.5)
            for one in worker._tasks:
                one.cancel()
            bench.queue.is_away = True  # nor acknowledge
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"
            bench.queue.is_away = False
        bench.queue.expire_leases()
        async with bench.worker(sleeper(calls, 1), options=OPTIONS):
            await asyncio.sleep(20)
    assert len(calls) == 1
    depth = await bench.queue.depth("default")
    assert (depth.queued, depth.in_flight) == (0, 0)


@virtual_time
async def test_an_item_without_a_handler_is_left_to_others_and_does_not_count_as_delivered():
    bench = RemoteBench()

    @task("other")
    async def other() -> None: ...

    async with bench.host(ONE) as host, bench.worker(other) as worker:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(60)
        assert 10 < (await worker.health()).no_handler["work"] <= 61
        assert await bench.queue.dead_letters("default") == []
        async with bench.worker(sleeper([], 0)):
            assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_no_more_attempts_at_a_time_than_allowed():
    bench, calls = RemoteBench(), list[str]()
    async with bench.host(ONE) as host, bench.worker(sleeper(calls, 10), options=WorkerOptions(concurrency=3)):
        runs = [(await host.start("subject")).run_id for _ in range(7)]
        await asyncio.sleep(5)
        assert len(calls) == 3
        await asyncio.sleep(30)
        for run_id in runs:
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_queues_are_served_in_the_order_in_which_they_are_named():
    bench, calls = RemoteBench(), list[str]()

    @task("work")
    async def work(context: TaskContext) -> None:
        calls.append(context.step)

    text = """
steps:
  - {ref: slow, type: task, task: work, queue: slow}
  - {ref: fast, type: task, task: work, queue: fast}
"""
    async with bench.host(text) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        async with bench.worker(work, queues=("fast", "slow"), options=WorkerOptions(concurrency=1)):
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"
    assert calls == ["fast", "slow"]


@virtual_time
async def test_owners_are_told_of_durable_results():
    bench = RemoteBench()
    told: list[list[str]] = []

    async def wake_owners(run_ids: Iterable[str]) -> None:
        told.append(list(run_ids))

    async with bench.host(ONE) as host:
        registry = TaskRegistry([sleeper([], 0)])
        worker = RemoteWorker(
            bench.store, bench.queue, registry, queues=("default",), clock=bench.clock, wake_owners=wake_owners
        )
        await worker.start()
        run_id = (await host.start("subject")).run_id
        await host.outcome(run_id, timeout_ms=5_000)
        await worker.stop()
    assert told == [[run_id]]


@pytest.mark.parametrize("count", [0, 17])
async def test_a_worker_serves_a_bounded_number_of_queues(count: int):
    bench_queue: Any = None
    with pytest.raises(InvalidSettingError, match="serves 1 to 16"):
        RemoteWorker(
            bench_queue, bench_queue, TaskRegistry(), queues=[f"q{n}" for n in range(count)], clock=bench_queue
        )
