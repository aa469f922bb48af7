"""Hosts that lose an attempt again and again, one after the other: its run is set aside until somebody releases it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from ductor.actors.client import Client
from ductor.actors.engine_options import MIN_MAX_LOSSES, EngineOptions
from ductor.actors.host import HostOptions
from ductor.actors.messages import Assignment
from ductor.actors.tasks import Task
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, Bench, Hosts, WrappedStore

MAX_LOSSES = MIN_MAX_LOSSES
FEW = HostOptions(drain_ms=0, engine=EngineOptions(max_losses=MAX_LOSSES))
SETTLE_S = 5.0


def never_ending(bench: Bench) -> Task[..., Any]:
    """A handler that hosts have when they stop."""
    return bench.handler(lambda _n: asyncio.Event().wait())


async def lose(bench: Bench) -> str:
    """A run whose attempt has been lost as often as it may be, less the host that finds it now; its id."""
    async with bench.host(ONE, never_ending(bench), options=FEW) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(SETTLE_S)
    await lose_again(bench)
    return run_id


async def lose_again(bench: Bench) -> None:
    """One host after the other takes the run over and loses its attempt; as many as may."""
    for _ in range(MAX_LOSSES):
        calls = len(bench.calls)
        async with bench.host(ONE, never_ending(bench), options=FEW) as host:
            await asyncio.sleep(SETTLE_S)
            assert len(bench.calls) == calls + 1
            assert (await host.health()).set_aside == {}


@virtual_time
async def test_a_run_whose_attempt_hosts_lose_again_and_again_is_set_aside_and_goes_on_when_it_is_released():
    bench = Bench()
    run_id = await lose(bench)
    async with bench.host(ONE, bench.handler(), options=FEW) as host:
        await asyncio.sleep(SETTLE_S)
        assert list((await host.health()).set_aside) == [run_id]
        (mark,) = await host.runs_set_aside()
        assert f"was lost {MAX_LOSSES + 1} times" in mark.reason
        assert "set_aside" in [reason.kind for reason in (await host.explain(run_id)).run]
        await asyncio.sleep(600)
        assert len(bench.calls) == MAX_LOSSES + 1
        assert await host.release(run_id)
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"
        assert (await host.health()).set_aside == {}
        assert len(bench.calls) == MAX_LOSSES + 2


@virtual_time
async def test_losses_are_counted_anew_when_a_run_was_released():
    bench = Bench()
    run_id = await lose(bench)
    async with bench.host(ONE, bench.handler(), options=FEW):
        await asyncio.sleep(SETTLE_S)
    client = Client(bench.store, clock=bench.clock, ids=bench.ids)
    assert await client.release(run_id)
    await lose_again(bench)
    async with bench.host(ONE, bench.handler(), options=FEW) as host:
        await asyncio.sleep(SETTLE_S)
        assert list((await host.health()).set_aside) == [run_id]


@virtual_time
async def test_a_run_that_is_cancelled_and_then_released_ends_without_another_call():
    bench = Bench()
    run_id = await lose(bench)
    async with bench.host(ONE, bench.handler(), options=FEW) as host:
        await asyncio.sleep(SETTLE_S)
        await host.request(run_id, "cancel", by="somebody")
        await asyncio.sleep(60)
        assert (await host.view(run_id)).status == "running"
        assert await host.release(run_id)
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "cancelled"
        assert len(bench.calls) == MAX_LOSSES + 1


@virtual_time
async def test_an_attempt_that_no_handler_is_called_for_is_not_lost_by_restarts():
    bench = Bench()
    other = Task("another", bench.handler().handler)
    async with bench.host(ONE, other, options=FEW) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(SETTLE_S)
    for _ in range(2 * MAX_LOSSES):
        async with bench.host(ONE, other, options=FEW):
            await asyncio.sleep(SETTLE_S)
    async with bench.host(ONE, bench.handler(), options=FEW) as host:
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_an_attempt_that_waits_for_a_worker_is_not_lost_by_restarts_of_hosts():
    hosts = Hosts()
    handler = hosts.handler()
    remote = HostOptions(drain_ms=0, engine=EngineOptions(max_losses=MAX_LOSSES, remote_queues=("default",)))
    async with hosts.one(ONE, handler, options=remote) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(SETTLE_S)
    for _ in range(2 * MAX_LOSSES):
        async with hosts.one(ONE, handler, options=remote) as host:
            await asyncio.sleep(SETTLE_S)
            assert (await host.health()).set_aside == {}
    async with hosts.one(ONE, handler, options=FEW) as host:
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_a_full_pool_and_further_looks_at_a_run_lose_nothing():
    """What is offered again by the host that has it, or that nobody took, was with no host that died."""
    bench, is_over = Bench(), asyncio.Event()
    counted: list[Sequence[str]] = []

    class Counting(WrappedStore):
        async def count_losses(self, tokens: Sequence[str], count_id: UUID) -> Mapping[str, int]:
            counted.append(tokens)
            return await bench.store.count_losses(tokens, count_id)

    store = cast("Store", Counting(bench.store))
    async with bench.host(ONE, bench.handler(lambda _n: is_over.wait()), store=store, options=FEW) as host:
        offer, refusals = host.engine.pool.offer, iter(range(5))

        def refusing(assignment: Assignment) -> bool:
            return next(refusals, None) is None and offer(assignment)

        host.engine.pool.offer = refusing  # type: ignore[method-assign]
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(60)
        host.engine.wake(run_id)
        await asyncio.sleep(60)
        is_over.set()
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"
    assert (counted, len(bench.calls)) == ([], 1)
