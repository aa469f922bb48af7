"""The event bus: stored before matched, deduplicated by id, found by name and key, kept for a while, lost by nobody."""

import asyncio
from typing import Any

import pytest

from ductor.definitions.values import JsonObject
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.commit import Appended, BusEvent, EventWait, HeadUpdate, Refused
from ductor.journal.errors import ValueRefusedError
from ductor.journal.records import EventReceipt, UnscannedWait, WaitingRun
from ductor.journal.store import MAX_EVENT_PAYLOAD_BYTES, Store
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started

EXACT: JsonObject = {"b": 1.0, "a": 2**70, "é": "😀", "list": [None, True, 1e22, []], "nested": {"z": {}}}
NOBODY = "01890000-0000-7000-8000-000000000000"
FAR_FUTURE_US = START_US * 10


def event(event_id: str = "event-1", **fields: Any) -> BusEvent:
    return BusEvent(**{"tenant": "acme", "event_id": event_id, "name": "order.shipped", **fields})


def wait(node: str = "listen", index: int = 0, **fields: Any) -> EventWait:
    return EventWait(**{"node": node, "index": index, "name": "order.shipped", "since_us": START_US, **fields})


async def published(store: Store, *events: BusEvent) -> list[EventReceipt]:
    receipts = [await store.publish_event(each) for each in events]
    assert {receipt.verdict for receipt in receipts} == {"accepted"}
    return receipts


async def kept(store: Store, name: str = "order.shipped", tenant: str = "acme", **fields: Any) -> list[BusEvent]:
    arguments: dict[str, Any] = {"since_us": 0, "after_position": 0, "limit": 1_000, **fields}
    return list(await store.events_since(tenant, name, arguments.pop("since_us"), **arguments))


async def all_waits(store: Store, keys: list[tuple[str, str]] | None = None, **fields: Any) -> list[WaitingRun]:
    arguments: dict[str, Any] = {"tenant": "acme", "name": "order.shipped", "after": None, "limit": 1_000, **fields}
    tenant, name = arguments.pop("tenant"), arguments.pop("name")
    return list(await store.waits_for_event(tenant, name, keys or [("", "")], **arguments))


# --- events -----------------------------------------------------------------------------------------------------------


async def test_an_event_is_read_back_exactly_with_time_and_position(store: Store):
    before_us = await store.now_us()
    (receipt,) = await published(store, event(payload=EXACT, source="run/step", published_at_us=5, position=7**20))
    after_us = await store.now_us()
    assert before_us <= receipt.published_at_us <= after_us
    (stored,) = await kept(store)
    place: dict[str, Any] = {"published_at_us": receipt.published_at_us, "position": receipt.position}
    assert stored == event(payload=EXACT, source="run/step", **place)
    assert repr(stored.payload) == repr(EXACT)
    assert list(await store.unmatched_events(FAR_FUTURE_US, 10)) == [stored]


async def test_an_event_is_accepted_once_whoever_publishes_it_again(store: Store, second_store: Store):
    receipts = await asyncio.gather(
        *((store, second_store)[n % 2].publish_event(event(payload=n, name=f"name-{n % 3}")) for n in range(20))
    )
    assert sorted(receipt.verdict for receipt in receipts) == ["accepted"] + ["duplicate"] * 19
    assert len({(receipt.position, receipt.published_at_us) for receipt in receipts}) == 1
    assert len(await store.unmatched_events(FAR_FUTURE_US, 100)) == 1


async def test_an_id_belongs_to_its_tenant(store: Store):
    await published(store, event(tenant="acme", payload=1), event(tenant="globex", payload=2))
    assert [each.payload for each in await kept(store, tenant="globex")] == [2]


async def test_a_large_event_is_kept_and_a_larger_one_refused(store: Store):
    text = "x" * (MAX_EVENT_PAYLOAD_BYTES - 2)
    await published(store, event("fits", payload=text))
    with pytest.raises(ValueRefusedError, match=str(MAX_EVENT_PAYLOAD_BYTES)):
        await store.publish_event(event("beyond", payload=text + "x"))
    assert [each.event_id for each in await kept(store)] == ["fits"]


REFUSED: dict[str, BusEvent] = {
    "an empty id": event(""),
    "an id that is too long": event("x" * 256),
    "no name": event(name=""),
    "NUL in the name": event(name="a\0"),
    "a tenant that is too long": event(tenant="x" * 256),
    "NUL in the payload": event(payload=["\0"]),
    "a lone surrogate in the payload": event(payload={"\ud800": 1}),
    "infinity": event(payload=float("inf")),
    "NUL in the source": event(source="\0"),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
async def test_what_no_store_takes_is_refused_to_its_publisher_and_as_part_of_a_tick(store: Store, refused: BusEvent):
    with pytest.raises(ValueRefusedError):
        await store.publish_event(refused)
    run, neighbour = await started(store), await started(store)
    answers = await send_all(store, [run.commit(published=(refused,)), neighbour.commit(published=(event("good"),))])
    assert isinstance(answers[0], Refused)
    assert answers[1] == Appended(2)
    assert [each.event_id for each in await store.unmatched_events(FAR_FUTURE_US, 10)] == ["good"]


async def test_the_longest_id_still_reaches_a_run(store: Store):
    run, longest = await started(store), event("é" * 127 + "x")
    await published(store, longest)
    assert list(await store.deliver_event(longest, [run.run_id])) == [run.run_id]


async def test_a_tick_publishes_with_its_row_and_once(store: Store):
    run = await started(store)
    commit = run.commit(published=tuple(event(f"base/{n}", payload=EXACT) for n in (2, 10, 1)))
    before_us = await store.now_us()
    assert await send_all(store, [commit, commit]) == [Appended(2)] * 2
    assert await send(store, run.commit(version=2, published=(event("lost"),))) != Appended(2)
    await send_well(store, run.dispositions(published=(event("no row"),)))
    await send_well(store, run.commit(version=3, published=(event("base/1", payload="other"),)))

    found = await store.unmatched_events(FAR_FUTURE_US, 10)
    assert [each.event_id for each in found] == ["base/2", "base/10", "base/1"]
    assert all(before_us <= each.published_at_us for each in found)
    assert repr(found[-1].payload) == repr(EXACT)
    receipt = await store.publish_event(event("base/1"))
    assert receipt.verdict == "duplicate"


async def test_events_wait_for_matching_in_order_until_they_are_matched(store: Store):
    receipts = await published(store, *(event(f"e{n}") for n in range(5)))
    assert [each.event_id for each in await store.unmatched_events(FAR_FUTURE_US, 3)] == ["e0", "e1", "e2"]
    assert list(await store.unmatched_events(receipts[0].published_at_us, 3)) == []
    for _ in range(2):
        await store.event_matched("acme", "e1")
    await store.event_matched("globex", "e2")
    await store.event_matched("acme", "unknown")
    assert [each.event_id for each in await store.unmatched_events(FAR_FUTURE_US, 10)] == ["e0", "e2", "e3", "e4"]
    assert len(await kept(store)) == 5


async def test_kept_events_are_read_page_by_page_from_a_time_on(store: Store):
    receipts = await published(store, *(event(f"e{n}") for n in range(7)))
    await published(store, event("other name", name="order.lost"), event("other tenant", tenant="globex"))
    since_us = receipts[2].published_at_us
    first = await kept(store, since_us=since_us, limit=2)
    second = await kept(store, since_us=since_us, after_position=first[-1].position, limit=2)
    rest = await kept(store, since_us=since_us, after_position=second[-1].position, limit=50)
    read = [each.event_id for each in [*first, *second, *rest]]
    at_or_after = [f"e{n}" for n, receipt in enumerate(receipts) if receipt.published_at_us >= since_us]
    assert read == at_or_after
    assert await kept(store, since_us=since_us, after_position=receipts[6].position) == []
    assert await kept(store, since_us=receipts[6].published_at_us + 1) == []
    assert await kept(store, since_us=receipts[5].published_at_us, after_position=receipts[0].position) == [
        each for each in await kept(store) if each.published_at_us >= receipts[5].published_at_us
    ]


async def test_old_events_are_removed_once_they_are_matched(store: Store):
    receipts = await published(store, *(event(f"e{n}") for n in range(6)))
    for number in (0, 1, 3):
        await store.event_matched("acme", f"e{number}")
    before_us = receipts[4].published_at_us
    assert await store.remove_old_events(START_US, 10) == 0
    assert await store.remove_old_events(before_us, 2) == 2
    assert await store.remove_old_events(before_us, 1) == 0, "an unmatched event is not lost"
    assert await store.remove_old_events(before_us, 10) == 1
    assert await store.remove_old_events(before_us, 10) == 0
    assert [each.event_id for each in await kept(store)] == ["e2", "e4", "e5"]
    (again,) = await published(store, event("e0"))
    assert again.position > receipts[5].position
    # a page that began at an event that is gone begins anew
    page = await kept(store, since_us=receipts[4].published_at_us, after_position=receipts[3].position)
    assert [each.event_id for each in page] == ["e4", "e5", "e0"]


# --- waits ------------------------------------------------------------------------------------------------------------


async def test_waits_are_found_by_name_and_key(store: Store):
    runs = sorted([await started(store) for _ in range(4)], key=lambda run: run.run_id)
    keyed: dict[str, Any] = {"key_path": "payload.order_id", "key_value": '"7"'}
    await send_well(
        store,
        runs[0].commit(waits=(wait(), wait("other", name="order.lost"))),
        runs[1].commit(waits=(wait(**keyed), wait("both", index=3, **keyed))),
        runs[2].commit(waits=(wait(key_path="payload.order_id", key_value='"8"'),)),
        runs[3].commit(waits=(wait(key_path="payload.customer", key_value="1"),)),
    )
    assert list(await store.event_key_paths("acme", "order.shipped")) == ["", "payload.customer", "payload.order_id"]
    assert list(await store.event_key_paths("acme", "order.lost")) == [""]
    assert list(await store.event_key_paths("acme", "unknown")) == []
    assert list(await store.event_key_paths("globex", "order.shipped")) == []

    everyone = WaitingRun(run_id=runs[0].run_id, node="listen", index=0)
    both = WaitingRun(run_id=runs[1].run_id, node="both", index=3)
    order = WaitingRun(run_id=runs[1].run_id, node="listen", index=0)
    assert await all_waits(store) == [everyone]
    keys = [("payload.order_id", '"7"'), ("", ""), ("payload.order_id", '"7"'), ("payload.customer", "2")]
    assert await all_waits(store, keys) == [everyone, both, order]
    assert await all_waits(store, keys, limit=2) == [everyone, both]
    assert await all_waits(store, keys, after=(both.run_id, both.node, both.index)) == [order]
    assert await all_waits(store, keys, tenant="globex") == []
    assert await all_waits(store, keys, name="order.lost") == [
        WaitingRun(run_id=runs[0].run_id, node="other", index=0)
    ]  # fmt: skip


async def test_all_pages_together_are_all_waits(store: Store):
    runs = [await started(store) for _ in range(12)]
    nodes = ["z", "a_b", "ab", "a"]
    for run in runs:
        waits = tuple(
            wait(node, index, key_path="p", key_value=str(index % 2)) for node in nodes for index in (0, 1, 10)
        )
        await send_well(store, run.commit(waits=waits))
    found: list[WaitingRun] = []
    keys = [("p", "0"), ("p", "1"), ("", "")]
    while True:
        last = found[-1] if found else None
        page = await all_waits(store, keys, after=last and (last.run_id, last.node, last.index), limit=7)
        if not page:
            break
        found.extend(page)
    expected = [(run.run_id, node, index) for run in runs for node in nodes for index in (0, 1, 10)]
    assert [(each.run_id, each.node, each.index) for each in found] == sorted(expected)


async def test_a_node_that_leaves_takes_its_waits_along(store: Store):
    run = await started(store)
    await send_well(store, run.commit(waits=(wait("a", 0), wait("a", 1, key_path="p"), wait("b", 0))))
    await send_well(store, run.commit(waits_gone=("a", "unknown"), waits=(wait("c", 0),)))
    assert [each.node for each in await all_waits(store, [("", ""), ("p", "")])] == ["b", "c"]
    assert list(await store.event_key_paths("acme", "order.shipped")) == [""]
    await send_well(store, run.commit(waits_gone=("b", "c")))
    assert await all_waits(store) == []
    assert list(await store.event_key_paths("acme", "order.shipped")) == []
    assert list(await store.unscanned_waits(10)) == []


async def test_a_wait_takes_the_place_of_the_one_before(store: Store):
    run = await started(store)
    await send_well(store, run.commit(waits=(wait(),)))
    await store.wait_scanned(run.run_id, "listen", 0)
    later = wait(name="order.lost", since_us=START_US + 9, key_path="p", key_value="1")
    await send_well(store, run.commit(waits=(later,)))
    assert await all_waits(store) == []
    assert len(await all_waits(store, [("p", "1")], name="order.lost")) == 1
    assert list(await store.unscanned_waits(10)) == [UnscannedWait(run_id=run.run_id, tenant="acme", wait=later)]


async def test_waits_that_begin_with_the_run_know_its_tenant(store: Store):
    run = RunWriter()
    await send_well(store, run.start(tenant="globex", waits=(wait(),)))
    assert [each.run_id for each in await all_waits(store, tenant="globex")] == [run.run_id]
    assert await all_waits(store) == []


async def test_a_tick_that_loses_changes_no_wait(store: Store):
    run = await started(store, waits=(wait("a"),))
    await send_well(store, run.commit())
    assert await send(store, run.commit(version=2, waits=(wait("b"),), waits_gone=("a",))) != Appended(2)
    await send_well(store, run.dispositions(waits=(wait("b"),), waits_gone=("a",)))
    assert [each.node for each in await all_waits(store)] == ["a"]


@pytest.mark.parametrize(
    "bad",
    [
        wait("a\0"),
        wait(name="x" * 256),
        wait(key_path="\ud800"),
        wait(key_value="x" * 256),
        wait(since_us=2**63),
        wait(index=2**31),
    ],
    ids=repr,
)
async def test_a_wait_that_no_store_takes_is_refused_alone(store: Store, bad: EventWait):
    run, neighbour = await started(store), await started(store)
    answers = await send_all(store, [run.commit(waits=(bad,)), neighbour.commit(waits=(wait(),))])
    assert isinstance(answers[0], Refused)
    assert answers[1] == Appended(2)
    assert [each.run_id for each in await all_waits(store)] == [neighbour.run_id]


async def test_waits_are_unscanned_until_somebody_has_looked(store: Store):
    run, other = sorted([await started(store), await started(store)], key=lambda run: run.run_id)
    await send_well(store, run.commit(waits=(wait("a"), wait("b", 1))), other.commit(waits=(wait("c"),)))
    everything = list(await store.unscanned_waits(10))
    assert [(each.run_id, each.wait) for each in everything] == [
        (run.run_id, wait("a")),
        (run.run_id, wait("b", 1)),
        (other.run_id, wait("c")),
    ]
    assert list(await store.unscanned_waits(10, run_id=other.run_id)) == everything[2:]
    assert list(await store.unscanned_waits(2)) == everything[:2]
    assert list(await store.unscanned_waits(1, run_id=run.run_id)) == everything[:1]
    assert list(await store.unscanned_waits(10, run_id="no-id")) == []

    await store.wait_scanned(run.run_id, "a", 0)
    await store.wait_scanned(run.run_id, "b", 0)
    await store.wait_scanned("no-id", "b", 1)
    assert list(await store.unscanned_waits(10)) == everything[1:]
    assert len(await all_waits(store)) == 3


async def test_a_look_for_an_earlier_wait_does_not_count_for_the_one_in_its_place(store: Store):
    run = await started(store, waits=(wait(since_us=START_US),))
    await send_well(store, run.commit(waits=(wait(since_us=START_US + 1),)))
    await store.wait_scanned(run.run_id, "listen", 0, since_us=START_US)
    assert len(await store.unscanned_waits(10)) == 1
    await store.wait_scanned(run.run_id, "listen", 0, since_us=START_US + 1)
    assert len(await store.unscanned_waits(10)) == 0


# --- delivery ---------------------------------------------------------------------------------------------------------


async def test_an_event_is_delivered_once_to_each_open_run_of_its_tenant(store: Store):
    runs = sorted([await started(store) for _ in range(3)], key=lambda run: run.run_id)
    closed, foreign = await started(store, status="failed", ended_at_us=START_US), await started(store, tenant="globex")
    (receipt,) = await published(store, event(payload=EXACT, source="run/step"))
    (stored,) = await kept(store)
    ids = [run.run_id for run in (*runs[::-1], closed, foreign, runs[0])]
    assert list(await store.deliver_event(stored, [runs[1].run_id])) == [runs[1].run_id]
    assert list(await store.deliver_event(stored, [*ids, NOBODY, "no-id"])) == [runs[0].run_id, runs[2].run_id]
    assert list(await store.deliver_event(stored, ids)) == []
    assert list(await store.deliver_event(stored, [])) == []

    loaded = await store.load(runs[0].run_id)
    assert loaded is not None
    (message,) = loaded.messages
    assert (message.id, message.kind, message.name, message.by) == ("event:event-1", "event", stored.name, "run/step")
    assert message.at_us == receipt.published_at_us
    assert repr(message.payload) == repr(EXACT)
    for run in (closed, foreign):
        assert await store.message_receipt(run.run_id, "event:event-1") is None
    assert sorted(await store.runs_to_wake(START_US, 10)) == [run.run_id for run in runs]


async def test_a_large_event_comes_to_its_runs_by_reference(store: Store):
    runs = [await started(store), await started(store)]
    await published(store, event(payload="x" * MAX_INLINE_BYTES))
    (stored,) = await kept(store)
    await store.deliver_event(stored, [run.run_id for run in runs])
    for run in runs:
        inputs = await store.inputs(run.run_id)
        assert inputs is not None
        (message,) = inputs.messages
        assert message.payload is None
        assert message.payload_ref is not None
        text = await store.payload(run.run_id, message.payload_ref.hash)
        assert text == b'"' + b"x" * MAX_INLINE_BYTES + b'"'
        assert [payload.text for payload in inputs.payloads] == [text]


async def test_two_hosts_deliver_an_event_once(store: Store, second_store: Store):
    runs = [await started(store) for _ in range(30)]
    ids = [run.run_id for run in runs]
    await published(store, event())
    (stored,) = await kept(store)
    ours, theirs = await asyncio.gather(store.deliver_event(stored, ids), second_store.deliver_event(stored, ids[::-1]))
    assert sorted([*ours, *theirs]) == sorted(ids)


async def test_an_event_that_races_with_the_end_is_not_stored_or_kept_waiting(store: Store):
    for _ in range(10):
        run = await started(store)
        end = run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US))
        answer, delivered = await asyncio.gather(send(store, end), store.deliver_event(event(), [run.run_id]))
        assert answer == Appended(2)
        loaded = await store.load(run.run_id)
        assert loaded is not None
        assert len(loaded.messages) == len(delivered)
        assert (run.run_id in await store.runs_to_wake(START_US, 100)) == bool(delivered)


async def test_publisher_and_waiter_never_miss_each_other(store: Store, second_store: Store):
    """Each looks after its own commit: whichever comes second finds the other."""
    for number in range(20):
        run, name = await started(store), f"name-{number}"

        async def park(run: RunWriter = run, name: str = name) -> bool:
            await send_well(store, run.commit(waits=(wait(name=name),)))
            (unscanned,) = await store.unscanned_waits(10, run_id=run.run_id)
            return bool(await kept(store, name, since_us=unscanned.wait.since_us))

        async def publish(name: str = name) -> bool:
            await published(second_store, event(name, name=name))
            paths = await second_store.event_key_paths("acme", name)
            return bool(await all_waits(second_store, [(path, "") for path in paths], name=name)) if paths else False

        assert any(await asyncio.gather(park(), publish()))
