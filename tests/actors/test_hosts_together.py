"""Several hosts on one store: who owns which runs, and how runs go from one host to another."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ductor.actors.client import Client
from ductor.actors.context import TaskContext
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.queue.items import QueueItem
from ductor.actors.sweeper import EARLY_BEAT_S, HOST_ALIVE_MS
from ductor.actors.tasks import Task, TaskRegistry, task
from ductor.actors.withdrawn import BEATS_KEPT
from ductor.definitions.compile import compile_text
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import AttemptDispatched, AttemptFinished
from ductor.journal.records import HostRecord
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, TWO, Bench, Hosts, WrappedStore, definition

LISTENING = "steps: [{ref: hear, type: wait, signal: word}]"
SELDOM = HostOptions(sweep_ms=3_600_000, drain_ms=1_000)
"""What such a host hears of, it hears of by wakeups."""


async def settled(*hosts: EngineHost) -> None:
    """Wait until all hosts know each other."""
    names = {host.host_id for host in hosts}
    async with asyncio.timeout(30):
        while not all([set((await host.health()).neighbours) == names - {host.host_id} for host in hosts]):  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)


def dispatches(rows: Sequence[Any]) -> list[str]:
    return [event.node for row in rows for event in row.events if isinstance(event, AttemptDispatched)]


@virtual_time
async def test_hosts_share_all_partitions_and_start_runs_of_their_own():
    bench = Hosts()
    work = bench.handler()
    async with bench.one(ONE, work) as first, bench.one(ONE, work) as second:
        await settled(first, second)
        shares = [(await host.health()).partitions for host in (first, second)]
        assert sum(shares) == 256
        assert min(shares) > 64
        for host in (first, second):
            started = [await host.start("subject") for _ in range(20)]
            assert all(host.engine.partitions.owns(one.run_id) for one in started)
            await asyncio.gather(*(host.outcome(one.run_id) for one in started))


@virtual_time
async def test_what_one_host_knows_of_a_run_of_another_wakes_that_one():
    bench = Hosts()
    async with bench.one(LISTENING, options=SELDOM) as first, bench.one(LISTENING, options=SELDOM) as second:
        await settled(first, second)
        run_id = (await second.start("subject")).run_id
        second.engine.passivate_oldest()
        await first.signal(run_id, "word", None)
        outcome = await first.outcome(run_id, timeout_ms=5_000)
        assert outcome.status == "completed"
        assert run_id not in first.engine.directory
        # nothing of it is left in the queue
        depth = await bench.queue.depth(f"system/{second.host_id}")
        assert (depth.queued, depth.in_flight) == (0, 0)


@virtual_time
async def test_child_runs_begin_at_the_hosts_that_own_them():
    bench = Hosts()
    calls: list[str] = []

    def handler(name: str) -> Task[..., Any]:
        @task("work")
        async def work(context: TaskContext) -> None:
            calls.append(name)

        return work

    parent = """
    steps:
      - ref: all
        type: scatter
        mode: child_workflow
        items_expr: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"
        do: {type: task, task: work}
    """
    async with (
        bench.one(parent, handler("first"), options=SELDOM) as first,
        bench.one(parent, handler("second"), options=SELDOM) as second,
    ):
        await settled(first, second)
        run_id = (await first.start("subject")).run_id
        assert (await first.outcome(run_id, timeout_ms=30_000)).status == "completed"
    assert set(calls) == {"first", "second"}
    assert len(calls) == 12


@virtual_time
async def test_an_attempt_that_goes_on_elsewhere_is_not_carried_out_by_the_new_owner():
    bench = Hosts()
    release = asyncio.Event()

    async def wait(number: int) -> int:
        await release.wait()
        return number

    work = bench.handler(wait)
    async with bench.one(TWO, work) as first:
        run_ids = [(await first.start("subject")).run_id for _ in range(20)]
        await asyncio.sleep(1)
        async with bench.one(TWO, work) as second:
            await settled(first, second)
            moved = [run_id for run_id in run_ids if second.engine.partitions.owns(run_id)]
            assert moved
            assert (await first.health()).guests == len(moved)
            await asyncio.sleep(2)
            assert not [run_id for run_id in moved if run_id in first.engine.directory]
            for run_id in moved:
                second.engine.wake_here(run_id, reissues=True)
            await asyncio.sleep(5)
            assert len(bench.calls) == 20
            release.set()
            outcomes = await asyncio.gather(*(second.outcome(run_id, timeout_ms=60_000) for run_id in run_ids))
            assert {outcome.status for outcome in outcomes} == {"completed"}
            assert len(bench.calls) == 40
            assert (await first.health()).guests == 0


@pytest.mark.parametrize("are_lost", [False, True])
@virtual_time
async def test_what_changed_hands_is_issued_again_once_its_former_owner_has_told_what_it_holds(are_lost: bool):
    bench = Hosts()

    async def wait(number: int) -> None:
        await asyncio.sleep(20 if number <= 20 else 0)

    work = bench.handler(wait)
    async with bench.one(ONE, work) as first:
        run_ids = [(await first.start("subject")).run_id for _ in range(20)]
        await asyncio.sleep(1)
        async with bench.one(ONE, work) as second:
            moved = [run_id for run_id in run_ids if second.engine.partitions.owns(run_id)]
            assert moved
            if are_lost:
                for token in tuple(first.engine.pool.held_tokens()):
                    first.engine.pool.abandon(token)
            for run_id in moved:
                second.engine.wake_here(run_id, reissues=True)
            await asyncio.sleep(1)
            assert len(bench.calls) == 20
            outcomes = await asyncio.gather(*(second.outcome(run_id, timeout_ms=60_000) for run_id in moved))
            assert {outcome.status for outcome in outcomes} == {"completed"}
            assert len(bench.calls) == 20 + (len(moved) if are_lost else 0)


@virtual_time
async def test_an_attempt_that_goes_on_elsewhere_is_stopped_with_its_run():
    """Within a heartbeat of the cancellation, and long before the run would end without it."""
    bench = Hosts()
    stopped: list[float] = []
    loop = asyncio.get_running_loop()

    async def wait(number: int) -> int:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            stopped.append(loop.time())
            raise
        return number

    work = bench.handler(wait)
    async with bench.one(ONE, work) as first:
        run_ids = [(await first.start("subject")).run_id for _ in range(20)]
        await asyncio.sleep(1)
        async with bench.one(ONE, work) as second:
            await settled(first, second)
            await asyncio.sleep(2)
            moved = [run_id for run_id in run_ids if second.engine.partitions.owns(run_id)]
            for run_id in moved:
                second.engine.wake_here(run_id, reissues=True)
            await asyncio.sleep(1)
            began_s = loop.time()
            for run_id in moved:
                await second.request(run_id, "cancel")
            outcomes = await asyncio.gather(*(second.outcome(run_id, timeout_ms=20_000) for run_id in moved))
            assert {outcome.status for outcome in outcomes} == {"cancelled"}
            heartbeat_s = second.options.heartbeat_ms / 1_000
            assert len(stopped) == len(moved)
            assert max(stopped) - began_s <= heartbeat_s + EARLY_BEAT_S + 0.1
            assert loop.time() - began_s < 3
            rows = [row for run_id in moved for row in await second.history(run_id)]
            results = [event for row in rows for event in row.events if isinstance(event, AttemptFinished)]
            assert [result.outcome for result in results] == ["cancelled"] * len(moved)
            await asyncio.sleep((BEATS_KEPT + 3) * heartbeat_s)
            assert (await first.health()).guests == 0
            assert [row.withdrawn for row in await bench.store.hosts(alive_within_ms=60_000)] == [(), ()]
            assert len(bench.calls) == 20


@virtual_time
async def test_who_drains_hands_its_runs_over_while_its_attempts_finish():
    bench = Hosts()

    @task("work")
    async def work(context: TaskContext) -> str:
        bench.calls.append(context.step)
        await asyncio.sleep(10 if len(bench.calls) == 1 else 20 if len(bench.calls) == 2 else 0)
        return context.step

    async with bench.one(TWO, work) as second:
        async with bench.one(TWO, work, options=HostOptions(drain_ms=60_000)) as first:
            await settled(first, second)
            short = (await first.start("subject")).run_id
            await asyncio.sleep(0.5)
            long = (await first.start("subject")).run_id
            await asyncio.sleep(0.5)
            stopping = asyncio.create_task(first.stop_host())
            # the second step of the one run is over before the first step of the other, for which the host still waits
            assert (await second.outcome(short, timeout_ms=15_000)).status == "completed"
            assert not stopping.done()
            await stopping
        assert (await second.outcome(long, timeout_ms=15_000)).status == "completed"
        for run_id in (short, long):
            assert dispatches(await second.history(run_id)) == ["a", "b"]
    assert sorted(bench.calls) == ["a", "a", "b", "b"]


@virtual_time
async def test_an_attempt_that_outlasts_the_drain_goes_on_at_another_host():
    bench = Hosts()

    async def work(number: int) -> int:
        if number == 1:
            await asyncio.Event().wait()
        return number

    handler = bench.handler(work)
    async with bench.one(ONE, handler) as second:
        async with bench.one(ONE, handler, options=SELDOM) as first:
            await settled(first, second)
            run_id = (await first.start("subject")).run_id
            await asyncio.sleep(1)
        assert (await second.outcome(run_id, timeout_ms=30_000)).status == "completed"
    assert len(bench.calls) == 2


@virtual_time
async def test_what_a_draining_host_is_asked_to_start_begins_elsewhere():
    bench = Hosts()
    release = asyncio.Event()

    async def work(number: int) -> int:
        if number == 1:
            await release.wait()
        return number

    handler = bench.handler(work)
    async with (
        bench.one(ONE, handler) as second,
        bench.one(ONE, handler, options=HostOptions(drain_ms=60_000)) as first,
    ):
        await settled(first, second)
        await first.start("subject")
        await asyncio.sleep(1)
        stopping = asyncio.create_task(first.stop_host())
        await asyncio.sleep(5)
        late = (await first.start("subject")).run_id
        assert (await second.outcome(late, timeout_ms=10_000)).status == "completed"
        assert not stopping.done()
        release.set()
        await stopping


@virtual_time
async def test_runs_of_a_host_that_beats_no_more_are_taken_over_in_time():
    bench = Hosts()
    work = bench.handler()
    await bench.store.open()
    gone = HostRecord(host_id="gone", started_at_us=0, heartbeat_at_us=0)
    await bench.store.beat(gone)
    async with bench.one(ONE, work) as host:
        await settled_with(host, {"gone"})
        before = host.engine.partitions
        for number in range(3):  # a wakeup for it that nobody reads
            item = QueueItem(token=f"t{number}", queue="system/gone", tenant="wakeups", body=b"null")
            await bench.queue.enqueue([item])
        # runs of partitions that nobody looks at now
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        run_id = (await client.start("subject")).run_id
        while before.owns(run_id):
            run_id = (await client.start("subject")).run_id
        outcome = await host.outcome(run_id, timeout_ms=5_000)
        assert outcome.status == "completed"
        await settled_with(host, set())
        await asyncio.sleep(2)
        assert (await bench.queue.depth("system/gone")).queued == 0
        await asyncio.sleep(120)
        assert [row.host_id for row in await bench.store.hosts(alive_within_ms=2**31)] == [host.host_id]


async def settled_with(host: EngineHost, names: set[str]) -> None:
    async with asyncio.timeout(30):
        while set((await host.health()).neighbours) != names:  # noqa: ASYNC110 - in virtual time
            await asyncio.sleep(0.1)


@virtual_time
async def test_a_start_that_fails_is_told_and_can_be_repeated():
    bench = Bench()
    await bench.store.open()

    class Away(WrappedStore):
        is_away = True

        async def beat(self, host: HostRecord) -> Sequence[HostRecord]:
            if self.is_away:
                raise StoreUnavailableError("away")
            return await bench.store.beat(host)

    store = Away(bench.store)
    host = EngineHost(store, TaskRegistry([bench.handler()]), clock=bench.clock, ids=bench.ids)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError):
            await host.start_host()
        assert not (await host.health()).is_running
    store.is_away = False
    await host.start_host()
    for compiled in compile_text(definition(ONE)):
        await host.publish(compiled)
    assert (await host.outcome((await host.start("subject")).run_id)).status == "completed"
    await host.stop_host()


class SlowRecovery(WrappedStore):
    """Does not say what is to be recovered until it may; then fails so many times first."""

    def __init__(self, bench: Bench, *, failures: int = 0) -> None:
        super().__init__(bench.store)
        self.may_answer, self.failures, self.asked = asyncio.Event(), failures, 0

    async def runs_to_recover(self, *arguments: Any) -> Sequence[str]:
        self.asked += 1
        await self.may_answer.wait()
        if self.asked <= self.failures:
            raise StoreUnavailableError("away")
        return await self.inner.runs_to_recover(*arguments)


@virtual_time
async def test_a_host_whose_recovery_takes_long_is_not_taken_for_dead():
    bench = Bench()
    await bench.store.open()
    store = SlowRecovery(bench)
    host = EngineHost(store, TaskRegistry([bench.handler()]), clock=bench.clock, ids=bench.ids)
    starting = asyncio.create_task(host.start_host())
    await asyncio.sleep(60)
    assert not starting.done()
    assert store.asked == 1
    assert [row.host_id for row in await bench.store.hosts(alive_within_ms=HOST_ALIVE_MS)] == [host.host_id]
    store.may_answer.set()
    await starting
    await host.stop_host()


@virtual_time
async def test_a_host_whose_recovery_fails_at_its_start_comes_up_and_recovers():
    bench = Bench()
    await bench.store.open()
    client = Client(bench.store, clock=bench.clock, ids=bench.ids)
    for compiled in compile_text(definition(ONE)):
        await client.publish(compiled)
    run_id = (await client.start("subject")).run_id
    store = SlowRecovery(bench, failures=2)
    store.may_answer.set()
    options = HostOptions(sweep_ms=SELDOM.sweep_ms)
    host = EngineHost(store, TaskRegistry([bench.handler()]), clock=bench.clock, ids=bench.ids, options=options)
    await host.start_host()
    assert store.asked == 1
    assert (await host.outcome(run_id, timeout_ms=10_000)).status == "completed"
    assert store.asked == 3
    await host.stop_host()
