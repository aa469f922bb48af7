"""The event bus on hosts: an event reaches whoever waits for it, whatever comes first and whoever dies between."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from ductor.actors.client import Client
from ductor.actors.host import EngineHost, HostOptions
from ductor.definitions.values import JsonValue
from ductor.journal.commit import BusEvent
from ductor.journal.errors import StoreUnavailableError, ValueRefusedError
from ductor.journal.memory import MemoryStore
from ductor.journal.records import MessageReceipt
from ductor.journal.store import EVENT_WINDOW_MS
from ductor.testing import virtual_time
from tests.actors.hosting import Bench, WrappedStore

PAID = """
input: {type: object}
steps:
  - ref: paid
    type: wait
    event: paid
    match: event.payload.order == trigger.order
    lookback: 10m
    timeout: 30d
"""
DAY_S = 86_400


async def start(host: EngineHost, *orders: JsonValue) -> list[str]:
    return [(await host.start("subject", {"order": order})).run_id for order in orders]


async def is_waiting(host: EngineHost, run_id: str) -> bool:
    return (await host.view(run_id)).status == "waiting"


class Loads(WrappedStore):
    """Counts what matching costs."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.woken: list[str] = []
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.inner, name)
        if name not in ("inputs", "load", "waits_for_event", "deliver_event"):
            return call

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in ("inputs", "load"):
                self.woken.append(arguments[0])
            return await call(*arguments, **named)

        return counted


# --- before, during and after -----------------------------------------------------------------------------------------


@virtual_time
async def test_an_event_after_its_wait_is_heard():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(60)
        receipt = await host.publish_event("paid", {"order": 1, "amount": 5})
        assert receipt.verdict == "accepted"
        before_us = bench.clock.now_us()
        assert (await host.outcome(run_id)).output == {"paid": {"order": 1, "amount": 5}}
        assert bench.clock.now_us() - before_us < 10_000, "no sweep was needed"


@virtual_time
async def test_an_event_before_its_wait_is_found_as_far_as_the_wait_looks_back():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        await host.publish_event("paid", {"order": 1})
        await asyncio.sleep(60)
        await host.publish_event("paid", {"order": 2})
        await asyncio.sleep(599)
        early, found = await start(host, 1, 2)
        before_us = bench.clock.now_us()
        assert (await host.outcome(found)).output == {"paid": {"order": 2}}
        assert bench.clock.now_us() - before_us < 10_000, "no sweep was needed"
        await asyncio.sleep(60)
        assert await is_waiting(host, early)


@virtual_time
async def test_a_wait_without_lookback_hears_nothing_that_came_before():
    bench = Bench()
    async with bench.host(PAID.replace("    lookback: 10m\n", ""), bench.handler()) as host:
        await host.publish_event("paid", {"order": 1})
        await asyncio.sleep(1)
        (run_id,) = await start(host, 1)
        await asyncio.sleep(60)
        assert await is_waiting(host, run_id)
        await host.publish_event("paid", {"order": 1, "again": True})
        assert (await host.outcome(run_id)).output == {"paid": {"order": 1, "again": True}}


@pytest.mark.parametrize("delay", range(8))
@virtual_time
async def test_an_event_at_the_same_time_as_its_wait_is_heard_once(delay: int):
    """The publishing and the waiting side at every point of each other, loop step by loop step."""
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:

        async def publish() -> None:
            for _ in range(delay):
                await asyncio.sleep(0)
            await host.publish_event("paid", {"order": 1}, event_id="e-1")

        started, _ = await asyncio.gather(start(host, 1), publish())
        assert (await host.outcome(started[0], timeout_ms=10_000)).output == {"paid": {"order": 1}}
        receipt = await host.receipt(started[0], "event:e-1")
        assert isinstance(receipt, MessageReceipt)
        assert receipt.disposition == "consumed"


@virtual_time
async def test_a_repeated_id_is_a_duplicate_and_wakes_nobody_again():
    bench = Bench()
    text = """
    context: {heard: 0}
    on: [{event: paid, effects: {heard: "${context.heard + 1}"}}]
    steps: [{ref: stop, type: wait, signal: stop}]
    output: "${context.heard}"
    """
    async with bench.host(text, bench.handler()) as host:
        run_id = (await host.start("subject")).run_id
        await asyncio.sleep(1)
        receipts = [await host.publish_event("paid", n, event_id="e-1") for n in range(3)]
        assert [receipt.verdict for receipt in receipts] == ["accepted", "duplicate", "duplicate"]
        assert len({(receipt.position, receipt.published_at_us) for receipt in receipts}) == 1
        await host.signal(run_id, "stop")
        assert (await host.outcome(run_id)).output == 1


@virtual_time
async def test_events_of_another_tenant_or_name_are_not_heard():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(1)
        await host.publish_event("paid", {"order": 1}, tenant="other")
        await host.publish_event("unpaid", {"order": 1})
        await asyncio.sleep(60)
        assert await is_waiting(host, run_id)


@virtual_time
async def test_a_payload_that_is_too_large_is_refused_to_its_sender():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        with pytest.raises(ValueRefusedError, match="the limit is 1048576"):
            await host.publish_event("paid", "x" * (1 << 20))


# --- keys -------------------------------------------------------------------------------------------------------------


@virtual_time
async def test_of_a_thousand_waits_the_one_that_is_meant_is_woken_and_no_other():
    bench = Bench()
    store = Loads(bench.store)
    async with bench.host(PAID, bench.handler(), store) as host:
        runs = await start(host, *range(1_000))
        await asyncio.sleep(10)
        store.woken.clear()
        store.calls.clear()
        await host.publish_event("paid", {"order": 617})
        assert (await host.outcome(runs[617], timeout_ms=1_000)).status == "completed"
        assert set(store.woken) == {runs[617]}
        assert store.calls.count("waits_for_event") == store.calls.count("deliver_event") == 1
        await host.publish_event("paid", {"order": 10_000})
        await host.publish_event("paid", {"none": 1})
        await asyncio.sleep(10)
        assert set(store.woken) == {runs[617]}
        assert store.calls.count("deliver_event") == 1


@virtual_time
async def test_keys_that_are_equal_in_the_language_are_one_key():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        runs = await start(host, 5, 5.0, "5", None, {"b": 1, "a": [2]}, "long" * 100, True)
        await asyncio.sleep(1)
        sent: list[JsonValue] = [5.0, "5", None, {"a": [2.0], "b": 1}, "long" * 100, True]
        for order in sent:
            await host.publish_event("paid", {"order": order})
        outcomes = [await host.outcome(run_id, timeout_ms=10_000) for run_id in runs]
        assert [outcome.status for outcome in outcomes] == ["completed"] * len(runs)


@virtual_time
async def test_an_event_reaches_more_waits_than_one_page_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.actors.bus.WAITS_PER_PAGE", 7)
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        runs = await start(host, *[1] * 50)
        await asyncio.sleep(1)
        await host.publish_event("paid", {"order": 1})
        for run_id in runs:
            assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


@virtual_time
async def test_a_wait_looks_through_more_events_than_one_page_holds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.actors.bus.EVENTS_PER_PAGE", 7)
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        for order in range(50):
            await host.publish_event("paid", {"order": order})
        (run_id,) = await start(host, 49)
        assert (await host.outcome(run_id, timeout_ms=5_000)).status == "completed"


# --- kills ------------------------------------------------------------------------------------------------------------


class Failing(WrappedStore):
    """Calls of these names fail as long as it is told to."""

    def __init__(self, store: MemoryStore, *names: str) -> None:
        super().__init__(store)
        self.names = names
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        if name not in self.names:
            return getattr(self.inner, name)

        async def failing(*_: Any, **__: Any) -> Any:
            self.failed += 1
            raise StoreUnavailableError("killed")

        return failing


@pytest.mark.parametrize(
    "call", ["event_key_paths", "waits_for_event", "deliver_event", "event_triggers", "event_matched"]
)
@virtual_time
async def test_a_publisher_that_dies_after_storing_leaves_its_event_to_the_next(call: str):
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(1)
    failing = Failing(bench.store, call, "unmatched_events")
    async with bench.host(PAID, bench.handler(), failing) as host:
        assert (await host.publish_event("paid", {"order": 1}, event_id="e-1")).verdict == "accepted"
        assert failing.failed
    async with bench.host(PAID, bench.handler()) as host:
        assert (await host.outcome(run_id, timeout_ms=3_000)).output == {"paid": {"order": 1}}
        await asyncio.sleep(3)
        assert await bench.store.unmatched_events(bench.clock.now_us(), 10) == []


@virtual_time
async def test_an_event_published_without_a_host_is_matched_by_one():
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        (run_id,) = await start(host, 1)
        client = Client(bench.store, clock=bench.clock, ids=bench.ids)
        await client.publish_event("paid", {"order": 1})
        assert (await host.outcome(run_id, timeout_ms=3_000)).output == {"paid": {"order": 1}}


@virtual_time
async def test_a_host_that_does_not_run_leaves_its_events_to_one_that_does():
    bench = Bench()
    async with bench.host(PAID + "triggers: [{event: paid, input: {order: 9}}]", bench.handler()) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(1)
    await host.publish_event("paid", {"order": 1})
    assert [event.name for event in await bench.store.unmatched_events(bench.clock.now_us() + 1, 10)] == ["paid"]
    await host.start_host()
    assert (await host.outcome(run_id, timeout_ms=3_000)).status == "completed"
    assert len(await bench.store.open_run_ids("default", "subject", None, 10)) == 1, "the trigger started its run"
    await host.stop_host()


@pytest.mark.parametrize("call", ["unscanned_waits", "events_since", "deliver_event", "wait_scanned"])
@virtual_time
async def test_a_waiter_that_dies_before_it_has_looked_is_looked_up_by_the_next(call: str):
    bench = Bench()
    async with bench.host(PAID, bench.handler()) as host:
        await host.publish_event("paid", {"order": 1})
    failing = Failing(bench.store, call)
    async with bench.host(PAID, bench.handler(), failing) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(5)
        assert failing.failed
    async with bench.host(PAID, bench.handler()) as host:
        assert (await host.outcome(run_id, timeout_ms=3_000)).output == {"paid": {"order": 1}}
        await asyncio.sleep(1)
        assert await bench.store.unscanned_waits(10) == []


@virtual_time
async def test_an_event_and_a_wait_on_two_hosts_meet():
    bench = Bench()
    async with (
        bench.host(PAID, bench.handler()) as first,
        bench.host(PAID, bench.handler()) as second,
    ):
        early, late = await start(first, 1, 2)
        await asyncio.sleep(1)
        await second.publish_event("paid", {"order": 1})
        await second.publish_event("paid", {"order": 2})
        for run_id in (early, late):
            assert (await first.outcome(run_id, timeout_ms=5_000)).status == "completed"


# --- the sweep --------------------------------------------------------------------------------------------------------


class Poisoned(WrappedStore):
    """Refuses to deliver one event, whatever is done."""

    async def deliver_event(self, event: BusEvent, run_ids: Sequence[str]) -> Sequence[str]:
        if event.event_id == "poison":
            raise ValueRefusedError("event payload", "", "poison")
        return await self.inner.deliver_event(event, run_ids)


@virtual_time
async def test_an_event_that_can_not_be_delivered_keeps_no_other_back(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL, "ductor.actors.bus")
    bench = Bench()
    async with bench.host(PAID, bench.handler(), Poisoned(bench.store)) as host:
        waiting, other = await start(host, 1, 2)
        await asyncio.sleep(1)
        assert (await host.publish_event("paid", {"order": 1}, event_id="poison")).verdict == "accepted"
        await asyncio.sleep(5)
        await bench.store.publish_event(BusEvent(tenant="default", event_id="fine", name="paid", payload={"order": 2}))
        assert (await host.outcome(other, timeout_ms=5_000)).status == "completed"
        late = await start(host, 1, 2)
        assert (await host.outcome(late[1], timeout_ms=5_000)).status == "completed"
        assert await is_waiting(host, waiting)


@virtual_time
async def test_a_sweep_that_breaks_is_not_the_last_one(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL, "ductor.actors.sweeper")

    class Breaking(WrappedStore):
        is_broken = True

        async def unmatched_events(self, older_than_us: int, limit: int) -> Sequence[BusEvent]:
            if self.is_broken:
                raise ZeroDivisionError
            return await self.inner.unmatched_events(older_than_us, limit)

    bench = Bench()
    store = Breaking(bench.store)
    async with bench.host(PAID, bench.handler(), store) as host:
        (run_id,) = await start(host, 1)
        await asyncio.sleep(5)
        await bench.store.publish_event(BusEvent(tenant="default", event_id="e", name="paid", payload={"order": 1}))
        await asyncio.sleep(5)
        store.is_broken = False
        assert (await host.outcome(run_id, timeout_ms=3_000)).status == "completed"


@virtual_time
async def test_events_are_kept_for_their_window_and_then_removed():
    bench = Bench()
    async with bench.host(PAID, bench.handler(), options=HostOptions(sweep_ms=60_000, heartbeat_ms=60_000)) as host:
        first = await host.publish_event("paid", {"order": 1}, event_id="e-1")
        await asyncio.sleep(EVENT_WINDOW_MS / 1_000 - 3_600)
        assert (await host.publish_event("paid", {"order": 1}, event_id="e-1")).position == first.position
        await asyncio.sleep(7_200)
        again = await host.publish_event("paid", {"order": 1}, event_id="e-1")
        assert again.verdict == "accepted"


@virtual_time
async def test_old_events_are_not_looked_for_at_every_sweep():
    bench = Bench()
    looked: list[int] = []

    class Counting(WrappedStore):
        async def remove_old_events(self, before_us: int, limit: int) -> int:
            looked.append(before_us)
            return limit if len(looked) < 3 else 0

    async with bench.host(PAID, bench.handler(), Counting(bench.store)):
        await asyncio.sleep(10)
        assert len(looked) == 3, "at once as long as there are more"
        await asyncio.sleep(600)
        assert 12 <= len(looked) <= 14


@virtual_time
async def test_a_wait_that_parked_anew_is_looked_up_anew():
    """Marking the first look as done must not mark the one that a redrive needs."""
    bench = Bench()

    class Slow(WrappedStore):
        """Its first look takes so long that the run is redriven meanwhile."""

        async def wait_scanned(self, run_id: str, node: str, index: int, **named: Any) -> None:
            if self.holds:
                self.holds = False
                self.reached.set()
                await self.go_on.wait()
            await self.inner.wait_scanned(run_id, node, index, **named)

        holds = True
        reached, go_on = asyncio.Event(), asyncio.Event()

    store = Slow(bench.store)
    async with bench.host(PAID, bench.handler(), store, HostOptions(sweep_ms=86_400_000)) as host:
        (run_id,) = await start(host, 1)
        await store.reached.wait()
        await host.request(run_id, "cancel")
        await host.outcome(run_id)
        await asyncio.sleep(1)
        scans = bench.store.unscanned_waits

        async def none(*_: Any, **__: Any) -> Sequence[Any]:
            return []

        bench.store.unscanned_waits = none  # type: ignore[method-assign]
        await host.request(run_id, "redrive")
        await asyncio.sleep(1)
        store.go_on.set()
        await asyncio.sleep(1)
        bench.store.unscanned_waits = scans  # type: ignore[method-assign]
        assert [wait.run_id for wait in await bench.store.unscanned_waits(10)] == [run_id]
