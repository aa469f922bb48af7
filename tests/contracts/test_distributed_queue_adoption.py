"""Leases of another tier that a tier adopts, for every tier: they count, last and end as its own do."""

import asyncio

from ductor.actors.queue.distributed import Tier
from ductor.actors.queue.items import LanePolicy, Lease, QueuePolicy
from ductor.actors.queue.memory import MemoryQueue
from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from tests.queue_harness import LONG_MS, Q, QueueUnderTest, item, take, tokens


def foreign(token: object, tenant: str = "acme", delivery: int = 1) -> Lease:
    """A lease that no tier here has handed out."""
    return Lease(item=item(token, tenant), receipt=77, delivery=delivery, tier="elsewhere")


def tiers(under_test: QueueUnderTest) -> tuple[Tier, Tier]:
    """The tier as two processes have it."""
    queue, other = under_test.queue, under_test.other
    assert isinstance(queue, MemoryQueue | RedisQueue | PostgresQueue)
    assert isinstance(other, MemoryQueue | RedisQueue | PostgresQueue)
    return queue, other


async def test_an_adopted_item_is_leased_and_can_be_renewed_and_acknowledged(tier_under_test: QueueUnderTest):
    queue, other = tiers(tier_under_test)
    (adopted,) = await queue.adopt([foreign(1)], visibility_ms=LONG_MS)
    assert adopted is not None
    assert (adopted.item, adopted.delivery) == (item(1), 1)
    assert adopted.tier == (await queue.health()).tier
    assert await other.held(Q, ["1"]) == {"1": "leased"}
    assert await other.enqueue([item(1)]) == ["held"]
    assert await take(other) == []
    assert await queue.renew([adopted], visibility_ms=LONG_MS) == [True]
    assert await queue.renew([foreign(1)], visibility_ms=LONG_MS) == [False]
    assert await queue.acknowledge([adopted]) == [True]
    assert await other.held(Q, ["1"]) == {}


async def test_what_waits_is_taken_out_of_its_lane(tier_under_test: QueueUnderTest):
    queue, _ = tiers(tier_under_test)
    await queue.enqueue([item(1), item(2), item(3, "other")])
    adopted = await queue.adopt([foreign(1), foreign(3, "other")], visibility_ms=LONG_MS)
    assert [lease is not None for lease in adopted] == [True, True]
    assert tokens(await take(queue, 10)) == ["2"]
    depth = await queue.depth(Q)
    assert (depth.queued, depth.in_flight) == (0, 3)
    assert [(lane.tenant, lane.queued, lane.in_flight) for lane in depth.lanes] == [("acme", 0, 2), ("other", 0, 1)]


async def test_what_somebody_has_or_is_set_aside_is_left(tier_under_test: QueueUnderTest):
    queue, _ = tiers(tier_under_test)
    await queue.enqueue([item(1)])
    (lease,) = await take(queue)
    assert await queue.adopt([foreign(1)], visibility_ms=LONG_MS) == [None]
    assert await queue.renew([lease], visibility_ms=LONG_MS) == [True]
    for _ in range(5):
        await tier_under_test.expire_leases()
        await take(queue)
    await tier_under_test.expire_leases()
    assert len(await queue.dead_letters(Q)) == 1
    assert await queue.adopt([foreign(1)], visibility_ms=LONG_MS) == [None]
    assert await queue.held(Q, ["1"]) == {"1": "dead"}


async def test_an_adopted_lease_runs_out_and_its_deliveries_count(tier_under_test: QueueUnderTest):
    queue, _ = tiers(tier_under_test)
    await queue.adopt([foreign(1, delivery=4)], visibility_ms=LONG_MS)
    await tier_under_test.expire_leases()
    (lease,) = await take(queue)
    assert (lease.item, lease.delivery) == (item(1), 5)
    await tier_under_test.expire_leases()
    assert await take(queue) == []
    assert [letter.deliveries for letter in await queue.dead_letters(Q)] == [5]


async def test_one_that_is_released_waits_with_the_deliveries_that_it_had(tier_under_test: QueueUnderTest):
    queue, _ = tiers(tier_under_test)
    (adopted,) = await queue.adopt([foreign(1, delivery=3)], visibility_ms=LONG_MS)
    assert adopted is not None
    waiting = asyncio.create_task(take(tier_under_test.other, wait_ms=30_000))
    await asyncio.sleep(0)
    assert await queue.release([adopted]) == [True]
    async with asyncio.timeout(10):
        (lease,) = await waiting
    assert lease.delivery == 3


async def test_caps_count_what_was_adopted_and_a_freed_slot_is_used(tier_under_test: QueueUnderTest):
    queue, other = tiers(tier_under_test)
    await queue.set_lane_policy(Q, "acme", LanePolicy(max_in_flight=2))
    adopted = await queue.adopt([foreign(number) for number in range(3)], visibility_ms=LONG_MS)
    assert None not in adopted  # the work is under way, whatever the cap says
    await queue.enqueue([item("next"), item("free", "other")])
    assert tokens(await take(other, 10)) == ["free"]
    waiting = asyncio.create_task(take(other, 10, wait_ms=30_000))
    await asyncio.sleep(0)
    await queue.acknowledge([lease for lease in adopted if lease is not None][:2])
    async with asyncio.timeout(10):
        assert tokens(await waiting) == ["next"]


async def test_a_queues_cap_counts_what_was_adopted(tier_under_test: QueueUnderTest):
    queue, _ = tiers(tier_under_test)
    await queue.set_queue_policy(Q, QueuePolicy(max_in_flight=2))
    await queue.adopt([foreign(1), foreign(2, "other")], visibility_ms=LONG_MS)
    await queue.enqueue([item(3)])
    assert await take(queue) == []
    assert await queue.withdraw(Q, ["2"]) == {"2": "leased"}
    assert tokens(await take(queue)) == ["3"]
