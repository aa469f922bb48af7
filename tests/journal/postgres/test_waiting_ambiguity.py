"""Answers of single writes that get lost: sent again they find what was written, or they say that nobody knows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import pytest

from ductor.journal.commit import Appended, BusEvent, EventWait, SentMessage
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import Message
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import StartTrigger
from tests.journal.postgres.commits import WAIT_S, answered, send, started_runs, tick
from tests.journal.postgres.proxies import CuttingProxy
from tests.postgres_fixtures import Database

LATER_US = 10**18
SIGNAL = Message(id="m", kind="signal", name="paid")
EVENT = BusEvent(tenant="acme", event_id="e", name="shipped")
Answer = TypeVar("Answer")


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CuttingProxy]:
    async with CuttingProxy(database.dsn) as proxy:
        yield proxy


@pytest.fixture
async def store(proxy: CuttingProxy) -> AsyncIterator[PostgresStore]:
    """A store that reaches its server through the proxy."""
    async with PostgresStore(proxy.dsn) as store:
        yield store


async def with_lost_answer(proxy: CuttingProxy, written: Awaitable[Answer]) -> Answer:
    """What a caller learns when the server has done its work and the connection breaks before it can say so."""
    proxy.is_mute = True
    waiting = asyncio.ensure_future(written)
    await proxy.until_swallowed()
    proxy.is_mute = False
    proxy.cut()
    return await asyncio.wait_for(waiting, WAIT_S)


async def test_a_message_is_stored_once(store: PostgresStore, proxy: CuttingProxy) -> None:
    first, second = await started_runs(store, 2)
    await store.send_message(second, SIGNAL)
    receipt = await with_lost_answer(proxy, store.send_message(first, SIGNAL))
    assert receipt is not None
    assert (receipt.verdict, receipt.disposition) == ("duplicate", "")
    assert receipt == await store.message_receipt(first, "m")
    inputs = await store.inputs(first)
    assert inputs is not None
    assert len(inputs.messages) == 1


async def test_an_event_is_stored_once(store: PostgresStore, proxy: CuttingProxy) -> None:
    await store.publish_event(BusEvent(tenant="acme", event_id="earlier", name="shipped"))
    receipt = await with_lost_answer(proxy, store.publish_event(EVENT))
    assert receipt.verdict == "duplicate"
    events = await store.unmatched_events(LATER_US, 10)
    assert [(event.event_id, event.position) for event in events][1:] == [("e", receipt.position)]


async def test_a_delivery_is_made_once_and_wakes_its_run(store: PostgresStore, proxy: CuttingProxy) -> None:
    run_ids = await started_runs(store, 3)
    await store.deliver_event(EVENT, run_ids[:1])
    assert list(await with_lost_answer(proxy, store.deliver_event(EVENT, run_ids))) == []
    assert sorted(await store.runs_to_wake(0, 10)) == run_ids
    for run_id in run_ids:
        inputs = await store.inputs(run_id)
        assert inputs is not None
        assert len(inputs.messages) == 1


async def test_a_tick_sends_and_publishes_once(store: PostgresStore, proxy: CuttingProxy) -> None:
    sender, target = await started_runs(store, 2)
    parts: dict[str, Any] = {
        "sent": (SentMessage(target, SIGNAL),),
        "published": (EVENT,),
        "waits": (EventWait(node="n", index=0, name="x", since_us=1),),
    }
    assert await answered(store, tick(target, 2, **parts)) == [Appended(2)], "the statement is prepared"
    await store.event_matched("acme", "e")
    later = {**parts, "published": (BusEvent(tenant="acme", event_id="e2", name="shipped"),)}
    assert await with_lost_answer(proxy, send(store, tick(sender, 2, **later))) == Appended(2)
    assert [event.event_id for event in await store.unmatched_events(LATER_US, 10)] == ["e2"]
    inputs = await store.inputs(target)
    assert inputs is not None
    assert len(inputs.messages) == 1
    assert len(await store.unscanned_waits(10)) == 2


async def test_who_moved_a_schedule_is_not_guessed(store: PostgresStore, proxy: CuttingProxy) -> None:
    trigger = StartTrigger(tenant="acme", definition="order", manifest_hash="m", index=0, next_at_us=1)
    await store.replace_triggers("acme", "order", [trigger])
    with pytest.raises(StoreUnavailableError):
        await with_lost_answer(proxy, store.advance_schedule(trigger, 2))
    (schedule,) = await store.due_schedules(LATER_US, 10)
    assert schedule.next_at_us in (1, 2)
