"""Explain, where a step or a run waits for a lease."""

import asyncio

from ductor.actors.explain import explain, lines
from ductor.actors.reasons.leases import nodes_with_a_line
from ductor.actors.reasons.reason import Reason
from ductor.journal.events import RUN_LEASE
from ductor.journal.lease_store import LeaseEntry, LeaseLine
from ductor.testing import virtual_time
from tests.actors.hosting import Bench
from tests.actors.test_leases import Printer, hosting, start
from tests.actors.tick.driver import Driver

STEP = "steps: [{ref: a, type: wait, signal: go, timeout: 1h, lease: {key: press, limit: 3, timeout: 1m}}]"
RUN = "lease: {key: press}\nsteps: [{ref: a, type: task, task: t}]"


def holder(n: int, node: str = "print") -> LeaseEntry:
    return LeaseEntry(
        tenant="t",
        key="press",
        run_id=f"run-{n}",
        node=node,
        generation=0,
        limit=3,
        position=n,
        since_us=n * 1_000_000,
        fence=n,
    )


def line(ahead: int, *holders: LeaseEntry) -> LeaseLine:
    return LeaseLine(ahead=ahead, held=len(holders) + ahead, holders=holders)


def step_reason(driver: Driver, told: LeaseLine | None = None) -> Reason:
    lease_lines = {} if told is None else {"a": told}
    explanation = explain(driver.state, driver.program, hosts=(), now_us=driver.now_us, lease_lines=lease_lines)
    (reason,) = explanation.steps
    return reason


def test_a_step_is_told_its_place_and_who_holds_the_key():
    driver = Driver(STEP)
    reason = step_reason(driver, line(2, holder(1), holder(2, RUN_LEASE)))
    assert reason.text == (
        "waits for the lease `press`, which 3 may hold at once; it is number 3 in line; held by"
        " run run-1, step print since 1970-01-01T00:00:01Z, run run-2 since 1970-01-01T00:00:02Z and 2 more"
    )
    assert reason.details["position"] == 3
    (timeout,) = reason.children
    assert timeout.text == "waits for 1m at most: then it fails"
    assert (reason.kind, timeout.kind, reason.until_us) == ("lease", "timeout", driver.now_us + 60_000_000)


def test_without_a_line_it_is_told_what_it_waits_for():
    assert step_reason(Driver(STEP)).text == "waits for the lease `press`, which 3 may hold at once"
    assert step_reason(Driver(STEP), line(0)).text.endswith("nobody holds it, it is about to be granted")


def test_once_it_has_its_lease_its_own_wait_is_told():
    driver = Driver(STEP)
    driver.grant("a")
    assert step_reason(driver).kind == "signal"


def test_a_run_that_waits_is_told_as_a_whole():
    driver = Driver(RUN)
    assert nodes_with_a_line(driver.state) == [RUN_LEASE]
    told = {RUN_LEASE: line(0, holder(1, RUN_LEASE))}
    explanation = explain(driver.state, driver.program, hosts=(), now_us=driver.now_us, lease_lines=told)
    (reason,) = [reason for reason in explanation.run if reason.kind == "lease"]
    assert "it is number 1 in line; held by run run-1 since" in reason.text
    assert [(step.ref, step.text) for step in explanation.steps] == [("a", "begins once the run has its lease")]
    assert any("waits for the lease" in text for text in lines(explanation))


@virtual_time
async def test_a_client_asks_the_store_for_the_line():
    bench, printer = Bench(), Printer(3_600)
    async with hosting(bench, printer) as host:
        runs = [await start(host, n) for n in range(4)]
        await asyncio.sleep(5)
        (reason,) = (await host.explain(runs[3])).steps
        assert reason.details["position"] == 2
        holders = reason.details["holders"]
        assert isinstance(holders, list)
        assert [one["run_id"] for one in holders if isinstance(one, dict)] == runs[:2]
