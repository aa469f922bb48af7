"""One control asked of many runs, carried out by hosts, page by page, through kills."""

import asyncio
from collections.abc import Sequence

import pytest

from ductor.actors import bulk_controls
from ductor.actors.bulk_controls import BulkReceipt
from ductor.actors.client import Client
from ductor.actors.errors import BulkControlRefusedError
from ductor.actors.host import EngineHost, HostOptions
from ductor.journal.bulk_controls import MAX_UNFINISHED_BULK_CONTROLS, BulkControl
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.records import RunFilter
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore

PARKED = "steps: [{ref: a, type: wait, signal: go}]"


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_controls, "RUNS_PER_STEP", 3)


async def finished(client: Client, receipt: BulkReceipt) -> BulkControl:
    """Wait until it has passed all runs."""
    while True:
        bulk = await client.bulk(receipt.bulk_id)
        assert bulk is not None
        if bulk.finished_at_us is not None:
            return bulk
        await asyncio.sleep(0.1)


async def statuses(client: Client) -> dict[str, str]:
    return {head.run_id: head.status for head in await client.runs(RunFilter(limit=100))}


async def started_runs(host: EngineHost, count: int, *, tenant: str = "default") -> list[str]:
    return [(await host.start("subject", tenant=tenant)).run_id for _ in range(count)]


async def until_all_are(client: Client, run_ids: Sequence[str], status: str) -> None:
    while True:
        found = await statuses(client)
        if all(found[run_id] == status for run_id in run_ids):
            return
        await asyncio.sleep(0.1)


@virtual_time
async def test_all_runs_of_a_tenant_are_paused_resumed_and_cancelled():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host:
        run_ids = await started_runs(host, 10)
        receipt = await host.request_all("pause", tenant="default", by="ann", reason="audit")
        assert receipt.verdict == "accepted"
        bulk = await finished(host, receipt)
        assert (bulk.requested, bulk.after_run_id, bulk.by, bulk.reason) == (10, max(run_ids), "ann", "audit")
        await until_all_are(host, run_ids, "paused")
        explanation = await host.explain(run_ids[0])
        assert explanation.run[0].text.startswith("paused by ann: audit")
        for kind, status in (("resume", "waiting"), ("cancel", "cancelled")):
            await host.request_all(kind, tenant="default")  # type: ignore[arg-type]
            await until_all_are(host, run_ids, status)


@virtual_time
async def test_other_tenants_and_definitions_are_left_alone():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host:
        run_ids = await started_runs(host, 4)
        for tenant, definition in (("other", None), ("default", "another")):
            bulk = await finished(host, await host.request_all("cancel", tenant=tenant, definition=definition))
            assert bulk.requested == 0
        assert set((await statuses(host)).values()) == {"waiting"}
        await host.request_all("cancel", tenant="default", definition="subject")
        await until_all_are(host, run_ids, "cancelled")


@virtual_time
async def test_a_repeated_request_gives_the_first_receipt_and_asks_nobody_again():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host:
        (run_id,) = await started_runs(host, 1)
        first = await host.request_all("pause", tenant="default", request_id="r-1")
        await finished(host, first)
        await until_all_are(host, [run_id], "paused")
        await host.request(run_id, "resume")
        again = await host.request_all("pause", tenant="default", request_id="r-1")
        assert again == BulkReceipt(bulk_id=first.bulk_id, verdict="duplicate")
        assert (await host.request_all("pause", tenant="other", request_id="r-1")).verdict == "accepted"
        await asyncio.sleep(5)
        assert (await statuses(host))[run_id] == "waiting"


@virtual_time
async def test_progress_is_told_to_its_tenant_alone():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host:
        receipt = await host.request_all("pause", tenant="default")
        assert await host.bulk(receipt.bulk_id, tenant="default") is not None
        assert await host.bulk(receipt.bulk_id, tenant="other") is None
        assert await host.bulk("none") is None


@virtual_time
async def test_too_many_are_refused():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()):
        pass
    client = Client(bench.store, clock=bench.clock, ids=bench.ids)
    for _ in range(MAX_UNFINISHED_BULK_CONTROLS):
        await client.request_all("pause", tenant="default")
    with pytest.raises(BulkControlRefusedError) as refused:
        await client.request_all("pause", tenant="default")
    assert (refused.value.tenant, refused.value.kind, refused.value.limit) == ("default", "pause", 100)


class StoreThatDies(WrappedStore):
    """Its host is cut off from it after some pages: before a page is written, or after it with the answer lost."""

    def __init__(self, store: object, pages: int, *, is_answer_lost: bool) -> None:
        super().__init__(store)  # type: ignore[arg-type]
        self.pages, self.is_answer_lost = pages, is_answer_lost
        self.died = asyncio.Event()

    async def advance_bulk_control(
        self, bulk: BulkControl, run_ids: Sequence[str], *, is_last: bool
    ) -> BulkControl | None:
        self.pages -= 1
        if self.pages >= 0:
            return await self.inner.advance_bulk_control(bulk, run_ids, is_last=is_last)
        if self.pages == -1 and self.is_answer_lost:
            await self.inner.advance_bulk_control(bulk, run_ids, is_last=is_last)
        self.died.set()
        raise StoreUnavailableError("killed")


@pytest.mark.parametrize("is_answer_lost", [False, True])
@pytest.mark.parametrize("pages", [0, 1, 2, 3])
@virtual_time
async def test_another_host_carries_on_where_a_killed_one_was(pages: int, is_answer_lost: bool):
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host:
        run_ids = await started_runs(host, 10)
    dying = StoreThatDies(bench.store, pages, is_answer_lost=is_answer_lost)
    async with bench.host(PARKED, bench.handler(), store=dying) as killed:
        receipt = await killed.request_all("pause", tenant="default", request_id="r-1")
        await dying.died.wait()
    asked = [run_id for run_id in run_ids if await bench.store.control(run_id, f"{receipt.bulk_id}/{run_id}")]
    assert sorted(asked) == sorted(run_ids)[: min(10, 3 * (pages + is_answer_lost))]
    async with bench.host(PARKED, bench.handler()) as host:
        bulk = await finished(host, receipt)
        assert bulk.requested == 10
        await until_all_are(host, run_ids, "paused")
        for run_id in run_ids:
            control = await bench.store.control(run_id, f"{receipt.bulk_id}/{run_id}")
            assert control is not None
            assert control.disposition == "applied"


@virtual_time
async def test_hosts_side_by_side_share_the_work():
    bench = Bench()
    async with bench.host(PARKED, bench.handler()) as host, bench.host(PARKED, bench.handler()):
        run_ids = await started_runs(host, 20)
        bulk = await finished(host, await host.request_all("terminate", tenant="default"))
        assert bulk.requested == 20
        await until_all_are(host, run_ids, "terminated")


@virtual_time
async def test_a_run_that_starts_meanwhile_is_asked_and_one_that_starts_later_is_not():
    bench = Bench()
    async with bench.host(PARKED, bench.handler(), options=HostOptions(sweep_ms=1_000)) as host:
        run_ids = await started_runs(host, 4)
        receipt = await host.request_all("pause", tenant="default")
        meanwhile = await started_runs(host, 1)
        await finished(host, receipt)
        later = await started_runs(host, 1)
        await until_all_are(host, [*run_ids, *meanwhile], "paused")
        await asyncio.sleep(5)
        assert (await statuses(host))[later[0]] == "waiting"
