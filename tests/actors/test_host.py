"""The host: recovery, drain, passivation, starts, and hosts side by side, in virtual time."""

import asyncio
from typing import Any

import pytest

from ductor.actors.client import Client
from ductor.actors.context import TaskContext
from ductor.actors.engine_options import EngineOptions
from ductor.actors.errors import RunNotFoundError, WaitTimeoutError
from ductor.actors.host import HostOptions
from ductor.actors.tasks import task
from ductor.journal.events import AttemptDispatched, AttemptFinished, TimerFired
from ductor.journal.records import Control, RunFilter
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, TWO, Bench, HeldStore, WrappedStore

THREE_SIDE_BY_SIDE = """
steps: [{ref: a, type: task, task: work}, {ref: b, type: task, task: work}, {ref: c, type: task, task: work}]
"""


@virtual_time
async def test_what_waits_in_the_database_is_found_by_the_sweeper():
    """Guarantee 6, second half: nobody tells the host of the control, nor of the run."""
    bench = Bench()

    async def wait(_: int) -> None:
        await asyncio.Event().wait()

    async with bench.host(ONE, bench.handler(wait)) as host:
        started = await host.start("subject")
        await bench.store.request_control(Control(run_id=started.run_id, request_id="c-1", kind="cancel"))
        outcome = await host.outcome(started.run_id, timeout_ms=5_000)
        assert outcome.status == "cancelled"
        control = await bench.store.control(started.run_id, "c-1")
        assert control is not None
        assert control.disposition == "applied"


@virtual_time
async def test_a_run_started_without_a_host_is_carried_out_by_the_next_one():
    bench = Bench()
    async with bench.host(ONE, bench.handler()):
        pass
    client = Client(bench.store, clock=bench.clock, ids=bench.ids)
    started = await client.start("subject")
    assert (await client.view(started.run_id)).status == "pending"
    async with bench.host(ONE, bench.handler()):
        assert (await client.outcome(started.run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_two_hosts_on_one_run_never_double_a_step():
    bench = Bench()
    release = asyncio.Event()

    async def wait(number: int) -> int:
        await release.wait()
        return number

    async with bench.host(TWO, bench.handler(wait)) as first:
        started = await first.start("subject")
        async with bench.host(TWO, bench.handler(wait)) as second:
            await asyncio.sleep(1)
            second.engine.wake_here(started.run_id, reissues=False)
            await asyncio.sleep(0.1)
            assert started.run_id in second.engine.directory
            assert bench.calls == ["work"]
            release.set()
            assert (await second.outcome(started.run_id, timeout_ms=10_000)).status == "completed"
        events = [event for row in await first.history(started.run_id) for event in row.events]
        for kind in (AttemptDispatched, AttemptFinished):
            assert [event.node for event in events if isinstance(event, kind)] == ["a", "b"]


RETRIED = (
    "steps: [{ref: a, type: task, task: work, retry: {max_attempts: 3, initial: 1h, factor: 1, jitter: 0, max: 1h}}]"
)


@virtual_time
async def test_a_parked_run_leaves_memory_and_its_timer_brings_it_back_on_time():
    bench = Bench()

    async def work(number: int) -> int:
        if number == 1:
            raise ValueError("first")
        return number

    options = HostOptions(engine=EngineOptions(idle_ms=1_000))
    async with bench.host(RETRIED, bench.handler(work), options=options) as host:
        started = await host.start("subject")
        await asyncio.sleep(60)
        assert started.run_id not in host.engine.directory
        assert len(host.engine.timers) == 1
        outcome = await host.outcome(started.run_id)
        assert outcome.output == {"a": 2}
        rows = await host.history(started.run_id)
        fired = [(row.at_us, event) for row in rows for event in row.events if isinstance(event, TimerFired)]
        assert len(fired) == 1
        assert 0 <= fired[0][0] - fired[0][1].due_at_us < 50_000


@virtual_time
async def test_no_more_coordinators_than_the_host_may_keep():
    bench = Bench()

    async def work(number: int) -> int:
        raise ValueError("always")

    options = HostOptions(engine=EngineOptions(max_hot_runs=10))
    async with bench.host(RETRIED, bench.handler(work), options=options) as host:
        for _ in range(50):
            await host.start("subject")
        await asyncio.sleep(1)
        assert len(host.engine.directory) <= 10
        assert len(host.engine.timers) == 50
        assert len(await host.runs(RunFilter(statuses=("waiting",), limit=100))) == 50


@virtual_time
async def test_a_stopped_host_finishes_what_runs_and_the_next_carries_on():
    bench = Bench()
    async with bench.host(TWO, bench.handler(lambda n: asyncio.sleep(10, n))) as host:
        started = await host.start("subject")
        await asyncio.sleep(1)
    # drained: the attempt in flight finished and its result is committed
    assert bench.calls == ["work"]
    async with bench.host(TWO, bench.handler(lambda n: asyncio.sleep(10, n))) as host:
        assert (await host.view(started.run_id)).steps[0].status == "succeeded"
        assert (await host.outcome(started.run_id)).status == "completed"
    assert bench.calls == ["work", "work"]


@virtual_time
async def test_results_that_come_while_a_commit_is_under_way_outlive_the_host():
    """They are in the hands of a coordinator that stops before it can decide on them."""
    bench = Bench()
    store = HeldStore(bench.store)
    store.is_holding = False
    work = bench.handler(lambda n: asyncio.sleep(n, n))
    async with bench.host(THREE_SIDE_BY_SIDE, work, store) as host:
        started = await host.start("subject")
        store.is_holding = True
        await asyncio.sleep(5)
        assert len(store.held) == 1
        assert len(host.engine.pool.unconfirmed()) == 3
    async with bench.host(THREE_SIDE_BY_SIDE, work) as host:
        assert (await host.outcome(started.run_id, timeout_ms=5_000)).output == {"a": 1, "b": 2, "c": 3}
    assert len(bench.calls) == 3


@virtual_time
async def test_an_attempt_that_outlasts_the_drain_is_issued_again_under_its_token():
    bench = Bench()
    keys = []

    @task("work")
    async def work(context: TaskContext) -> str:
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "done"

    async with bench.host(ONE, work, options=HostOptions(drain_ms=1_000)) as host:
        started = await host.start("subject")
        await asyncio.sleep(1)
    async with bench.host(ONE, work) as host:
        assert (await host.outcome(started.run_id)).output == {"a": "done"}
    assert len(keys) == 2
    assert keys[0] == keys[1]


@virtual_time
async def test_an_attempt_for_an_unknown_handler_waits_and_is_served_when_it_comes():
    bench = Bench()

    @task("other")
    async def other() -> None: ...

    async with bench.host(ONE, other) as host:
        started = await host.start("subject")
        await asyncio.sleep(60)
        assert (await host.health()).waiting_for_handler == {"work": 1}
        step = (await host.view(started.run_id)).steps[0]
        assert (step.status, step.task) == ("running", "work")
        host.registry.register(bench.handler())
        assert (await host.outcome(started.run_id)).status == "completed"


@virtual_time
async def test_start_keys_make_starts_idempotent():
    bench = Bench()
    async with bench.host(ONE, bench.handler()) as host:
        many = await asyncio.gather(*(host.start("subject", key="k") for _ in range(20)))
        assert len({started.run_id for started in many}) == 1
        assert sum(started.is_new for started in many) == 1
        await host.outcome(many[0].run_id)
        assert bench.calls == ["work"]
        again = await host.start("subject", key="k")
        assert (again.run_id, again.is_new) == (many[0].run_id, False)


@virtual_time
async def test_waiting_ends_with_the_time_and_unknown_runs_are_named():
    bench = Bench()
    async with bench.host(ONE, bench.handler(lambda n: asyncio.sleep(10))) as host:
        started = await host.start("subject")
        with pytest.raises(WaitTimeoutError):
            await host.outcome(started.run_id, timeout_ms=100)
        for unknown in ("nonsense", "00000000-0000-7000-8000-000000000000"):
            with pytest.raises(RunNotFoundError):
                await host.view(unknown)
            with pytest.raises(RunNotFoundError):
                await host.outcome(unknown)


@virtual_time
async def test_a_clock_that_goes_backwards_does_not_turn_a_runs_time_back():
    bench = Bench()
    store = WrappedStore(bench.store)

    async def work(number: int) -> int:
        if number == 1:
            host.engine.clock = BackwardClock(bench.clock)
        return number

    class BackwardClock:
        def __init__(self, clock: Any) -> None:
            self.clock = clock

        def now_us(self) -> int:
            return int(self.clock.now_us()) - 3_600_000_000

    async with bench.host(TWO, bench.handler(work), store) as host:
        started = await host.start("subject")
        await host.outcome(started.run_id)
        times = [row.at_us for row in await host.history(started.run_id)]
        assert times == sorted(times)


@virtual_time
async def test_a_start_without_a_trigger_takes_the_defaults_of_an_object():
    bench = Bench()
    text = """
    input: {type: object, properties: {name: {type: string, default: world}}}
    steps: [{ref: a, type: transform, value: "${trigger.name}"}]
    """
    async with bench.host(text, bench.handler()) as host:
        assert (await host.outcome((await host.start("subject")).run_id)).output == {"a": "world"}


@virtual_time
async def test_an_attempt_that_was_told_to_stop_is_not_begun_again_by_the_next_host():
    bench = Bench()

    async def stubborn(_: int) -> None:
        await asyncio.Event().wait()

    def tells_nobody(token: str) -> None:
        """As if it had died."""

    store = WrappedStore(bench.store)
    async with bench.host(ONE, bench.handler(stubborn), store, HostOptions(drain_ms=0)) as host:
        started = await host.start("subject")
        await asyncio.sleep(1)
        host.engine.pool.cancel = tells_nobody  # type: ignore[method-assign]  # the host dies before it tells the worker
        await host.request(started.run_id, "cancel")
        await asyncio.sleep(1)
        assert bench.calls == ["work"]
    async with bench.host(ONE, bench.handler(stubborn)) as host:
        assert (await host.outcome(started.run_id, timeout_ms=5_000)).status == "cancelled"
    assert bench.calls == ["work"]
