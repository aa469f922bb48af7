"""Explaining a run through a client and a host: who is alive, what a host has set aside, whose run it is."""

import asyncio

import pytest

from ductor.actors.client import Client
from ductor.actors.errors import RunNotFoundError
from ductor.actors.explain import lines
from ductor.journal.records import HostRecord
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, Bench


@virtual_time
async def test_a_client_is_told_which_hosts_are_alive_and_what_they_can_run():
    bench = Bench()

    async def wait(_: int) -> None:
        await asyncio.Event().wait()

    async with bench.host(ONE, bench.handler(wait)) as host:
        started = await host.start("subject")
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        (running,) = (await client.explain(started.run_id)).steps
        assert (running.kind, running.children) == ("running", ())
        await host.stop_host()
        alone = await client.explain(started.run_id)
        assert [reason.kind for reason in alone.run] == ["no_host"]
        await bench.store.beat(HostRecord(host_id="other", started_at_us=0, heartbeat_at_us=0, tasks=("mail",)))
        explanation = await client.explain(started.run_id)
        assert explanation.steps[0].children[0].kind == "no_worker"
        assert lines(explanation)[-1] == "    none of the 1 hosts that are alive has a handler `work`"


@virtual_time
async def test_a_run_started_without_a_host_waits_for_one():
    bench = Bench()
    async with bench.host(ONE, bench.handler()):
        pass
    client = Client(bench.store, clock=bench.clock, ids=bench.ids)
    explanation = await client.explain((await client.start("subject")).run_id)
    assert explanation.status == "pending"
    assert [reason.kind for reason in explanation.run] == ["no_host", "next_tick"]
    assert [reason.kind for reason in explanation.steps] == ["ready"]


@virtual_time
async def test_a_host_tells_why_it_has_set_a_run_aside():
    bench = Bench()
    async with bench.host(ONE, bench.handler(lambda number: asyncio.sleep(3_600))) as host:
        started = await host.start("subject")
        host.engine.set_aside(started.run_id, ValueError("poison"))
        explanation = await host.explain(started.run_id)
        assert explanation.run[0].details == {"error": "poison"}


@virtual_time
async def test_an_unknown_run_and_another_tenants_are_not_found():
    bench = Bench()
    async with bench.host(ONE, bench.handler()) as host:
        started = await host.start("subject")
        with pytest.raises(RunNotFoundError):
            await host.explain(started.run_id, tenant="other")
        with pytest.raises(RunNotFoundError):
            await host.explain("nothing")
