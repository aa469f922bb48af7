"""Who waits for the end of a run hears of it, wherever it ends."""

import asyncio

import pytest

from ductor.actors.errors import HostStoppedError
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore

SIGNALLED = "steps: [{ref: stop, type: wait, signal: stop}]"
RUNS = 16


@virtual_time
async def test_who_began_to_wait_when_the_host_was_alone_looks_for_ends_on_hosts_that_come_later():
    bench = Bench()
    async with bench.host(SIGNALLED, bench.handler()) as first:
        run_ids = [(await first.start("subject")).run_id for _ in range(RUNS)]
        outcomes = [asyncio.create_task(first.outcome(run_id)) for run_id in run_ids]
        await asyncio.sleep(5)
        elsewhere = WrappedStore(bench.store)
        async with bench.host(SIGNALLED, bench.handler(), elsewhere) as second:
            await asyncio.sleep(5)
            before_us = bench.clock.now_us()
            for run_id in run_ids:
                await second.signal(run_id, "stop")
            assert {outcome.status for outcome in await asyncio.gather(*outcomes)} == {"completed"}
            assert bench.clock.now_us() - before_us < 2_000_000
            assert {commit.run_id for commit in elsewhere.commits}, "some ended on the second host"


@virtual_time
async def test_who_waits_when_the_host_stops_and_who_asks_while_it_does_hears_that_it_has():
    bench = Bench()
    async with bench.host(SIGNALLED, bench.handler()) as host:
        run_id = (await host.start("subject")).run_id
        waiting = asyncio.create_task(host.outcome(run_id))
        await asyncio.sleep(1)
        waiters = host.engine.waiters
        cancel, late = waiters.cancel, list[asyncio.Task[object]]()

        def cancelling() -> None:
            cancel()
            late.append(asyncio.create_task(host.outcome(run_id)))

        waiters.cancel = cancelling  # type: ignore[method-assign]
    for task in (waiting, *late):
        with pytest.raises(HostStoppedError):
            await asyncio.wait_for(task, timeout=1)
    assert late
