"""Runs that do not get on are helped, and in the end set aside, where people see and release them."""

import asyncio

from ductor.actors.client import Client
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.messages import Assignment
from ductor.actors.watchdog import MAX_WAKES, STALLED_AFTER_MS
from ductor.definitions.program import Program
from ductor.testing import virtual_time
from tests.actors.hosting import ONE, Bench

STALLED_S = STALLED_AFTER_MS / 1_000
SELDOM = HostOptions(drain_ms=1_000)


def lose_offers(host: EngineHost, number: int) -> list[str]:
    """Let the first attempts vanish between commit and worker; the list of those lost."""
    engine, lost = host.engine, list[str]()
    offer = engine.offer

    def losing(assignment: Assignment) -> None:
        if len(lost) < number:
            lost.append(assignment.token)
        else:
            offer(assignment)

    engine.offer = losing  # type: ignore[method-assign]
    return lost


@virtual_time
async def test_an_attempt_that_got_lost_is_issued_again():
    bench = Bench()
    async with bench.host(ONE, bench.handler(), options=SELDOM) as host:
        lost = lose_offers(host, 1)
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(STALLED_S - 5)
        assert (await host.view(run_id)).status == "running"
        assert (await host.outcome(run_id, timeout_ms=20_000)).status == "completed"
        assert lost == [f"{run_id}/a/1"]
        assert bench.calls == ["work"]


@virtual_time
async def test_a_long_attempt_is_left_alone():
    bench = Bench()
    async with bench.host(ONE, bench.handler(lambda n: asyncio.sleep(3_600, n)), options=SELDOM) as host:
        run_id = (await host.start("subject")).run_id
        woken: list[str] = []
        wake_here = host.engine.wake_here

        def counting(run_id: str, *, reissues: bool = True) -> None:
            woken.append(run_id)
            wake_here(run_id, reissues=reissues)

        host.engine.wake_here = counting  # type: ignore[method-assign]
        assert (await host.outcome(run_id)).status == "completed"
        assert woken == []


@virtual_time
async def test_a_run_that_nothing_helps_is_set_aside_through_restarts_until_it_is_released():
    bench = Bench()
    async with bench.host(ONE, bench.handler(), options=SELDOM) as host:
        lose_offers(host, 100)
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep((MAX_WAKES + 2) * (STALLED_S + 5))
        health = await host.health()
        assert list(health.set_aside) == [run_id]
        (mark,) = await host.runs_set_aside()
        assert (mark.run_id, mark.host_id) == (run_id, host.host_id)
        assert f"was looked at {MAX_WAKES} times" in mark.reason
        reasons = [reason.kind for reason in (await host.explain(run_id)).run]
        assert "set_aside" in reasons
    async with bench.host(ONE, bench.handler(), options=SELDOM) as host:
        await asyncio.sleep(10 * STALLED_S)
        assert bench.calls == []
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        assert "set_aside" in [reason.kind for reason in (await client.explain(run_id)).run]
        assert await client.release(run_id)
        assert not await client.release(run_id)
        assert (await host.outcome(run_id, timeout_ms=60_000)).status == "completed"


@virtual_time
async def test_a_run_that_kills_its_coordinator_is_marked_and_goes_on_where_it_was_when_released():
    bench = Bench()
    async with bench.host(ONE, bench.handler(), options=SELDOM) as host:
        engine, is_broken = host.engine, [True]
        programs = engine.programs.of_run

        async def breaking(state: object) -> tuple[Program, dict[str, Program]]:
            if is_broken[0]:
                raise RuntimeError("a defect")
            return await programs(state)  # type: ignore[arg-type]

        engine.programs.of_run = breaking  # type: ignore[method-assign]
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        run_id = (await client.start("subject")).run_id
        await asyncio.sleep(30)
        (mark,) = await client.runs_set_aside()
        assert (mark.run_id, mark.reason) == (run_id, "a defect")
        is_broken[0] = False
        await asyncio.sleep(60)
        assert bench.calls == []
        await client.release(run_id)
        assert (await host.outcome(run_id, timeout_ms=30_000)).status == "completed"
        assert (await host.health()).set_aside == {}


@virtual_time
async def test_a_pass_looks_at_one_page_and_gets_to_all_runs():
    bench = Bench()
    async with bench.host(ONE, bench.handler(), options=SELDOM) as host:
        lose_offers(host, 450)
        runs = [(await host.start("subject")).run_id for _ in range(450)]
        await asyncio.sleep(STALLED_S + 30)
        outcomes = await asyncio.gather(*(host.outcome(run_id, timeout_ms=60_000) for run_id in runs))
        assert {outcome.status for outcome in outcomes} == {"completed"}
