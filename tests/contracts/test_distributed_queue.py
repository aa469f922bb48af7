"""The rules of `DistributedQueue`, for every tier and for tiers together."""

import asyncio

import pytest

from ductor.actors.queue.distributed import (
    MAX_DELIVERIES,
    MAX_ITEMS_PER_CALL,
    MAX_QUEUES_PER_LEASE,
    MAX_VISIBILITY_MS,
    MAX_WAIT_MS,
)
from ductor.actors.queue.errors import QueueItemRefusedError
from ductor.actors.queue.items import MAX_ITEM_BYTES, QueueItem, QueuePolicy, system_queue, wakeup_item
from tests.queue_harness import LONG_MS, Q, QueueUnderTest, item, take, tokens


async def test_items_go_by_priority_then_arrival(under_test: QueueUnderTest):
    queue = under_test.queue
    items = [item(number, priority=priority) for number, priority in enumerate([0, 100, 0, -100, 100])]
    assert await queue.enqueue(items) == ["enqueued"] * 5
    leases = await take(queue, 10)
    assert tokens(leases) == ["1", "4", "0", "2", "3"]
    assert [lease.item for lease in leases] == [items[1], items[4], items[0], items[2], items[3]]
    assert [lease.delivery for lease in leases] == [1] * 5
    assert len({lease.receipt for lease in leases}) == 5


async def test_a_leased_item_goes_to_nobody_else(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1)])
    (lease,) = await take(under_test.queue)
    assert await take(under_test.other) == []
    assert await under_test.other.enqueue([item(1)]) == ["held"]
    assert await under_test.queue.acknowledge([lease]) == [True]
    assert await take(under_test.other) == []
    assert await under_test.other.held(Q, ["1"]) == {}
    assert await under_test.other.enqueue([item(1)]) == ["enqueued"]


async def test_a_token_is_held_once(under_test: QueueUnderTest):
    assert await under_test.queue.enqueue([item(1), item(1), item(2)]) == ["enqueued", "held", "enqueued"]
    assert await under_test.other.enqueue([item(2), item(3)]) == ["held", "enqueued"]
    assert tokens(await take(under_test.other, 10)) == ["1", "2", "3"]


async def test_a_lease_that_ran_out_is_delivered_again_at_its_old_place(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1), item(2), item(3)])
    first = await take(under_test.queue, 2)
    await under_test.expire_leases()
    again = await take(under_test.other, 3)
    assert tokens(again) == ["1", "2", "3"]
    assert [lease.delivery for lease in again] == [2, 2, 1]
    assert again[0].receipt != first[0].receipt
    assert await under_test.queue.renew(first, visibility_ms=LONG_MS) == [False, False]
    assert await under_test.queue.release(first) == [False, False]
    assert await under_test.other.renew(again, visibility_ms=LONG_MS) == [True, True, True]


async def test_what_is_done_is_done_even_when_the_lease_had_run_out(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1)])
    late = await take(under_test.queue)
    await under_test.expire_leases()
    again = await take(under_test.other)
    assert tokens(again) == ["1"]
    assert await under_test.queue.acknowledge(late) == [False]
    assert await under_test.other.renew(again, visibility_ms=LONG_MS) == [False]
    await under_test.expire_leases()
    assert await take(under_test.other) == []


async def test_a_short_lease_runs_out_by_itself_and_wakes_who_waits(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1)])
    await take(under_test.queue, visibility_ms=30)
    (again,) = await take(under_test.other, wait_ms=20_000)
    assert again.delivery == 2


async def test_a_renewed_lease_holds(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1), item(2)])
    for visibility_ms in (400, 2_000, 10_000):  # where the machine is slow, a lease may run out before it is renewed
        renewed, short = await take(under_test.queue, 2, visibility_ms=visibility_ms)
        if await under_test.queue.renew([renewed], visibility_ms=LONG_MS) == [True]:
            break
        await under_test.expire_leases()
    (again,) = await take(under_test.other, 2, wait_ms=20_000)
    assert again.item.token == short.item.token
    assert await under_test.other.held(Q, ["1", "2"]) == {"1": "leased", "2": "leased"}


async def test_a_returned_item_has_its_place_and_no_delivery_more(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1), item(2)])
    for _ in range(MAX_DELIVERIES + 2):
        (lease,) = await take(under_test.queue)
        assert (lease.item.token, lease.delivery) == ("1", 1)
        assert await under_test.queue.release([lease]) == [True]
        assert await under_test.queue.release([lease]) == [False]


async def test_a_poisoned_item_is_set_aside_and_its_lane_goes_on(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item("poison"), item("next")])
    for delivery in range(1, MAX_DELIVERIES + 1):
        (lease,) = await take(under_test.queue)
        assert (lease.item.token, lease.delivery) == ("poison", delivery)
        await under_test.expire_leases()
    assert tokens(await take(under_test.other, 5)) == ["next"]
    (letter,) = await under_test.other.dead_letters(Q)
    assert (letter.item, letter.deliveries) == (item("poison"), MAX_DELIVERIES)
    assert letter.dead_at_us > 0
    assert await under_test.other.held(Q, ["poison"]) == {"poison": "dead"}
    assert (await under_test.other.depth(Q)).dead == 1
    assert await under_test.queue.enqueue([item("poison")]) == ["held"]


async def poisoned(under_test: QueueUnderTest, *names: str) -> None:
    for name in names:
        await under_test.queue.enqueue([item(name)])
        for _ in range(MAX_DELIVERIES):
            assert tokens(await take(under_test.queue)) == [name]
            await under_test.expire_leases()
        await under_test.queue.dead_letters(Q)


async def test_dead_letters_are_listed_replayed_and_dropped(under_test: QueueUnderTest):
    await poisoned(under_test, "a", "b", "c")
    letters = await under_test.queue.dead_letters(Q)
    assert [letter.item.token for letter in letters] == ["c", "b", "a"]
    assert [letter.item.token for letter in await under_test.queue.dead_letters(Q, limit=2)] == ["c", "b"]
    assert await under_test.other.replay(Q, ["a", "b", "nobody"]) == [True, True, False]
    assert await under_test.other.drop(Q, ["a", "c", "nobody"]) == [False, True, False]
    assert await under_test.queue.dead_letters(Q) == []
    leases = await take(under_test.queue, 5)
    assert tokens(leases) == ["a", "b"]
    assert [lease.delivery for lease in leases] == [1, 1]


async def test_a_withdrawn_item_goes_to_nobody_and_who_has_it_learns_it(under_test: QueueUnderTest):
    await poisoned(under_test, "dead")
    await under_test.queue.enqueue([item("leased"), item("queued")])
    leases = await take(under_test.queue)
    stood = await under_test.other.withdraw(Q, ["leased", "queued", "dead", "nobody"])
    assert stood == {"leased": "leased", "queued": "queued", "dead": "dead"}
    assert await under_test.queue.renew(leases, visibility_ms=LONG_MS) == [False]
    await under_test.expire_leases()
    assert await take(under_test.queue, 5) == []
    assert await under_test.queue.dead_letters(Q) == []
    assert await under_test.queue.enqueue([item("leased"), item("queued")]) == ["enqueued"] * 2
    assert tokens(await take(under_test.queue, 5)) == ["leased", "queued"]


async def test_take_over_asks_what_is_held(under_test: QueueUnderTest):
    await poisoned(under_test, "dead")
    await under_test.queue.enqueue([item("first"), item("second")])
    await take(under_test.queue)
    asked = ["dead", "first", "second", "gone"]
    assert await under_test.other.held(Q, asked) == {"dead": "dead", "first": "leased", "second": "queued"}
    assert await under_test.other.held("elsewhere", asked) == {}


async def test_wakeups_outrank_tasks_and_are_not_taken_for_one_another(under_test: QueueUnderTest):
    wakeups = [wakeup_item("run-1", "acme", "host-1", str(number)) for number in range(2)]
    await under_test.queue.enqueue([item(1, priority=100), *wakeups])
    queues = (system_queue("host-1"), Q)
    leases = await take(under_test.other, 10, queues=queues)
    assert [lease.item for lease in leases] == [*wakeups, item(1, priority=100)]
    assert await take(under_test.other, 10, queues=(system_queue("host-2"),)) == []


async def test_who_waits_gets_the_next_arrival_at_once(under_test: QueueUnderTest):
    waiting = asyncio.create_task(take(under_test.queue, queues=("elsewhere", Q), wait_ms=30_000))
    await asyncio.sleep(0)
    await under_test.other.enqueue([item(1)])
    async with asyncio.timeout(5):
        assert tokens(await waiting) == ["1"]


async def test_many_who_wait_share_what_arrives(under_test: QueueUnderTest):
    waiting = [asyncio.create_task(take(under_test.queue, wait_ms=30_000)) for _ in range(8)]
    await asyncio.sleep(0)
    await under_test.other.enqueue([item(number) for number in range(8)])
    async with asyncio.timeout(10):
        found = [token for leases in await asyncio.gather(*waiting) for token in tokens(leases)]
    assert sorted(found) == [str(number) for number in range(8)]


async def test_who_waits_in_vain_gets_nothing(under_test: QueueUnderTest):
    assert await take(under_test.queue, wait_ms=20) == []


async def test_a_returned_item_wakes_who_waits(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1)])
    leases = await take(under_test.queue)
    waiting = asyncio.create_task(take(under_test.other, wait_ms=30_000))
    await asyncio.sleep(0)
    await under_test.queue.release(leases)
    async with asyncio.timeout(5):
        assert tokens(await waiting) == ["1"]


async def test_a_full_queue_refuses_and_takes_again_when_there_is_room(under_test: QueueUnderTest):
    await under_test.queue.set_queue_policy(Q, QueuePolicy(max_queued=2))
    room = 2 * under_test.tiers
    items = [item(number) for number in range(room + 1)]
    assert await under_test.queue.enqueue(items) == ["enqueued"] * room + ["refused"]
    assert await under_test.queue.enqueue(items[1:2]) == ["held"]
    assert (await under_test.queue.depth(Q)).queued == room
    await take(under_test.queue)
    assert await under_test.other.enqueue([items[-1], item("more")]) == ["enqueued", "refused"]


async def test_depth_tells_lanes_apart(under_test: QueueUnderTest):
    items = [item(1, "a"), item(2, "a", -5), item(3, "b"), item(4, "é")]
    await under_test.queue.enqueue(items)
    assert (await take(under_test.queue))[0].item.tenant == "a"
    (lease,) = await take(under_test.queue)
    assert lease.item.tenant == "b"
    depth = await under_test.other.depth(Q)
    assert (depth.queue, depth.queued, depth.in_flight, depth.dead) == (Q, 2, 2, 0)
    assert [(lane.tenant, lane.queued, lane.in_flight) for lane in depth.lanes] == [
        ("a", 1, 1),
        ("b", 0, 1),
        ("é", 1, 0),
    ]
    assert all(0 <= lane.oldest_age_ms < 60_000 for lane in depth.lanes)
    await under_test.queue.acknowledge([lease])
    assert [lane.tenant for lane in (await under_test.other.depth(Q)).lanes] == ["a", "é"]


async def test_the_age_of_a_lane_is_that_of_its_oldest_item_whatever_its_priority(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1, priority=-100)])
    assert await take(under_test.queue, wait_ms=60, queues=("elsewhere",)) == []
    await under_test.queue.enqueue([item(2, priority=100)])
    (lane,) = (await under_test.queue.depth(Q)).lanes
    assert lane.oldest_age_ms >= 50


async def test_queues_are_apart(under_test: QueueUnderTest):
    await under_test.queue.enqueue([item(1, queue="a"), item(1, queue="b"), item(2, queue="b")])
    assert tokens(await take(under_test.queue, 5, queues=("b",))) == ["1", "2"]
    assert await under_test.queue.held("a", ["1"]) == {"1": "queued"}
    assert tokens(await take(under_test.queue, 5, queues=("b", "a"))) == ["1"]


@pytest.mark.parametrize("tenant", ["a b:c|d", "ä\n€𝄞", "{x}", "a\x01", "'; --", "%", "\\"])
async def test_names_may_hold_anything_but_nul(under_test: QueueUnderTest, tenant: str):
    odd = QueueItem(token=f"t/{tenant}/1", queue=f"q{tenant}", tenant=tenant, body=b'{"a":"\\u0000"}')
    assert await under_test.queue.enqueue([odd, item(1, "a", queue=odd.queue)]) == ["enqueued"] * 2
    leases = await take(under_test.other, 5, queues=(odd.queue,))
    assert odd in [lease.item for lease in leases]
    assert len(leases) == 2
    assert await under_test.other.held(odd.queue, [odd.token]) == {odd.token: "leased"}
    assert sorted(lane.tenant for lane in (await under_test.other.depth(odd.queue)).lanes) == sorted({tenant, "a"})


@pytest.mark.parametrize(
    "bad",
    [
        QueueItem(token="", queue=Q, tenant="a"),
        QueueItem(token="t", queue=Q, tenant="a\x00b"),
        QueueItem(token="t", queue="q" * 256, tenant="a"),
        QueueItem(token="t\ud800", queue=Q, tenant="a"),
        QueueItem(token="t", queue=Q, tenant="a", priority=101),
        QueueItem(token="t", queue=Q, tenant="a", body=b"x" * (MAX_ITEM_BYTES + 1)),
    ],
)
async def test_what_no_tier_can_hold_is_refused(under_test: QueueUnderTest, bad: QueueItem):
    with pytest.raises(QueueItemRefusedError):
        await under_test.queue.enqueue([item(1), bad])
    assert (await under_test.queue.depth(Q)).queued == 0


async def test_calls_are_bounded(under_test: QueueUnderTest):
    queue = under_test.queue
    with pytest.raises(ValueError, match="items in one call"):
        await queue.enqueue([item(number) for number in range(MAX_ITEMS_PER_CALL + 1)])
    with pytest.raises(ValueError, match="items in one call"):
        await queue.held(Q, ["t"] * (MAX_ITEMS_PER_CALL + 1))
    for queues, max_items, visibility_ms, wait_ms in (
        ((), 1, 1, 0),
        ((Q,) * (MAX_QUEUES_PER_LEASE + 1), 1, 1, 0),
        ((Q,), MAX_ITEMS_PER_CALL + 1, 1, 0),
        ((Q,), 1, MAX_VISIBILITY_MS + 1, 0),
        ((Q,), 1, 1, MAX_WAIT_MS + 1),
    ):
        with pytest.raises(ValueError, match="allowed"):
            await queue.lease(queues, max_items=max_items, visibility_ms=visibility_ms, wait_ms=wait_ms)


async def test_the_largest_call_goes_through(under_test: QueueUnderTest):
    items = [item(number, tenant=f"tenant {number % 7}") for number in range(MAX_ITEMS_PER_CALL)]
    assert await under_test.queue.enqueue(items) == ["enqueued"] * MAX_ITEMS_PER_CALL
    leases = await take(under_test.other, MAX_ITEMS_PER_CALL)
    assert {lease.item for lease in leases} == set(items)
    assert all(await under_test.other.acknowledge(leases))
    depth = await under_test.queue.depth(Q)
    assert (depth.queued, depth.in_flight, depth.lanes) == (0, 0, ())


async def test_it_says_that_it_serves(under_test: QueueUnderTest):
    assert (await under_test.queue.health()).is_available
