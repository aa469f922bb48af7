"""A host without wakeups looks for the results of workers: quickly, and for no longer than it is worth."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from ductor.actors.queue.items import QueueHealth
from ductor.actors.tasks import Task, task
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.memory import MemoryStore
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, TWO
from tests.actors.remote_bench import RemoteBench, WatchedQueue

SWEEP_S = 0.5


class QueueWithoutWakeups(WatchedQueue):
    """Says that it is the tier that takes no wakeups."""

    async def health(self) -> QueueHealth:
        return msgspec.structs.replace(await super().health(), tier="postgres")


class CountingStore(MemoryStore):
    """Counts looks for results, and can be away for them."""

    looks = 0
    is_away = False

    async def runs_with_results(self, limit: int) -> Sequence[str]:
        self.looks += 1
        if self.is_away:
            raise StoreUnavailableError("the test has it away")
        return await super().runs_with_results(limit)


class Bench(RemoteBench):
    """One whose host gets no wakeups."""

    def __init__(self) -> None:
        super().__init__()
        self.store: CountingStore = CountingStore(self.clock)
        self.queue = QueueWithoutWakeups(self.clock)


def work(seconds: float) -> Task[..., Any]:
    """A handler that takes a while."""

    @task("work")
    async def handler() -> str:
        await asyncio.sleep(seconds)
        return "done"

    return handler


def now_s() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_remote_steps_do_not_wait_for_sweeps():
    bench = Bench()
    async with bench.host(TWO) as host, bench.worker(work(0)):
        await asyncio.sleep(60)
        began_s = now_s()
        outcome = await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)
        assert outcome.status == "completed"
        assert now_s() - began_s < SWEEP_S / 5


@virtual_time
async def test_a_host_with_nothing_in_other_processes_asks_nothing():
    bench = Bench()
    async with bench.host(ONE) as host, bench.worker(work(0)):
        await asyncio.sleep(60)
        assert bench.store.looks == 0
        await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)
        await asyncio.sleep(1)
        looks = bench.store.looks
        await asyncio.sleep(600)
        assert bench.store.looks == looks


@virtual_time
async def test_a_long_attempt_is_left_to_sweeps_after_a_while():
    bench = Bench()
    async with bench.host(ONE) as host, bench.worker(work(600)):
        began_s, run_id = now_s(), (await host.start("subject")).run_id
        assert (await host.outcome(run_id, timeout_ms=700_000)).status == "completed"
        assert now_s() - began_s < 600 + 2 * SWEEP_S
    assert 50 < bench.store.looks < 100


@virtual_time
async def test_a_step_of_some_seconds_is_seen_in_a_share_of_its_time():
    bench = Bench()
    async with bench.host(ONE) as host, bench.worker(work(3)):
        began_s, run_id = now_s(), (await host.start("subject")).run_id
        await host.outcome(run_id, timeout_ms=10_000)
        assert now_s() - began_s < 3 * 1.05 + 0.05


@virtual_time
async def test_looking_goes_on_when_the_database_is_back():
    bench = Bench()
    async with bench.host(TWO) as host, bench.worker(work(0)):
        bench.store.is_away = True
        await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)  # sweeps find the results
        bench.store.is_away = False
        await asyncio.sleep(5)
        began_s = now_s()
        await host.outcome((await host.start("subject")).run_id, timeout_ms=5_000)
        assert now_s() - began_s < SWEEP_S / 5


@virtual_time
async def test_a_host_that_has_stopped_looks_no_more():
    bench = Bench()
    async with bench.host(ONE) as host:
        await host.start("subject")
        await asyncio.sleep(0.2)
        assert bench.store.looks > 2
    looks = bench.store.looks
    await asyncio.sleep(60)
    assert bench.store.looks == looks
