"""What waits for a paused run costs nothing meanwhile, and is taken up when it is resumed."""

import asyncio
from collections.abc import Sequence

import pytest

from ductor.actors.client import Client
from ductor.actors.tasks import task
from ductor.journal.events import Message
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, HeldStore, WrappedStore


async def until_it_is(client: Client, run_id: str, status: str) -> None:
    while True:
        view = await client.view(run_id)
        if view.status == status:
            return
        await asyncio.sleep(0.1)


class UnsweptStore(WrappedStore):
    """No search finds what waits for runs."""

    async def runs_to_wake(self, now_us: int, limit: int) -> Sequence[str]:
        return []


@pytest.mark.parametrize("leaves_memory", [False, True])
@virtual_time
async def test_what_came_meanwhile_is_read_by_who_resumes(leaves_memory: bool):
    bench = Bench()
    release = asyncio.Event()

    @task("work")
    async def work() -> int:
        await release.wait()
        return 1

    text = "steps: [{ref: a, type: task, task: work}, {ref: b, type: wait, signal: go}]"
    async with bench.host(text, work, store=UnsweptStore(bench.store)) as host:
        run_id = (await host.start("subject")).run_id
        await host.request(run_id, "pause")
        await until_it_is(host, run_id, "paused")
        release.set()
        await host.signal(run_id, "go", "came")
        await asyncio.sleep(1)
        if leaves_memory:
            host.engine.passivate_oldest()
            await asyncio.sleep(1)
            assert run_id not in host.engine.directory
        await host.request(run_id, "resume")
        outcome = await host.outcome(run_id, timeout_ms=1_000)
        assert outcome.output == {"a": 1, "b": "came"}


class UnsweptHeldStore(HeldStore):
    """No search finds what waits for runs, and commits can be kept back."""

    async def runs_to_wake(self, now_us: int, limit: int) -> Sequence[str]:
        return []


@virtual_time
async def test_what_comes_while_the_run_is_being_resumed_is_read_after_that():
    bench = Bench()
    store = UnsweptHeldStore(bench.store)
    store.is_holding = False
    text = "steps: [{ref: b, type: wait, signal: go}]"
    async with bench.host(text, bench.handler(), store=store) as host:
        run_id = (await host.start("subject")).run_id
        await host.request(run_id, "pause")
        await until_it_is(host, run_id, "paused")
        store.is_holding = True
        await host.request(run_id, "resume")
        await asyncio.sleep(1)
        assert len(store.held) == 1
        await bench.store.send_message(run_id, Message(id="m-1", kind="signal", name="go"))  # nobody tells the host
        store.release()
        assert (await host.outcome(run_id, timeout_ms=1_000)).status == "completed"


@virtual_time
async def test_a_paused_run_with_an_overdue_timer_and_a_message_costs_no_wakeups(monkeypatch: pytest.MonkeyPatch):
    bench = Bench()
    woken: list[str] = []
    async with bench.host("steps: [{ref: a, type: wait, duration: 1s}]", bench.handler()) as host:
        started = await host.start("subject")
        await host.request(started.run_id, "pause")
        await until_it_is(host, started.run_id, "paused")
        assert await bench.store.next_due_us() is None
        await host.signal(started.run_id, "later")
        wake = host.engine.wake

        def noted(run_id: str, *, reissues: bool = True) -> None:
            woken.append(run_id)
            wake(run_id, reissues=reissues)

        monkeypatch.setattr(host.engine, "wake", noted)
        await asyncio.sleep(30)
        assert woken == []
        assert (await host.view(started.run_id)).status == "paused"
        await host.request(started.run_id, "resume")
        assert (await host.outcome(started.run_id, timeout_ms=5_000)).status == "completed"
