"""How lanes share a queue, for every tier: turns, weights, work in flight, caps and rates."""

import asyncio
from collections import Counter, deque

import pytest

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.items import LanePolicy, Lease, QueueItem, QueuePolicy
from tests.queue_harness import Q, QueueUnderTest, item, take, tokens

WEIGHT_TOLERANCE = 0.05
"""How far a lane's share of the deliveries may be from its weight's share, as a share of all."""


async def fill(queue: DistributedQueue, tenant: str, count: int, priority: int = 0) -> None:
    items: list[QueueItem] = [item(f"{tenant}/{number}", tenant, priority) for number in range(count)]
    for start in range(0, count, MAX_ITEMS_PER_CALL):
        await queue.enqueue(items[start : start + MAX_ITEMS_PER_CALL])


async def test_lanes_are_served_in_turn(under_test: QueueUnderTest):
    for number, tenant in enumerate(["a", "a", "a", "b", "c", "b"]):
        await under_test.queue.enqueue([item(number, tenant)])
    served = []
    while leases := await take(under_test.queue):
        served += tokens(leases)
        await under_test.queue.acknowledge(leases)
    assert served == ["0", "3", "4", "1", "5", "2"]


async def test_a_flood_delays_another_tenant_by_one_delivery(under_test: QueueUnderTest):
    await fill(under_test.queue, "flood", 600, priority=100)
    for _ in range(20):
        await under_test.queue.acknowledge(await take(under_test.queue))
    await fill(under_test.queue, "small", 1, priority=-100)
    next_two = [lease.item.tenant for _ in range(2) for lease in await take(under_test.queue)]
    assert "small" in next_two


@pytest.mark.parametrize("consumers", [1, 2, 8])
async def test_weights_are_honoured(under_test: QueueUnderTest, consumers: int):
    weights = {"a": 5, "b": 2, "c": 1}
    for tenant, weight in weights.items():
        await under_test.queue.set_lane_policy(Q, tenant, LanePolicy(weight=weight))
        await fill(under_test.queue, tenant, 250)
    served: Counter[str] = Counter()
    held: deque[Lease] = deque()
    for _ in range(320):
        (lease,) = await take(under_test.queue)
        served[lease.item.tenant] += 1
        held.append(lease)
        if len(held) == consumers:
            await under_test.queue.acknowledge([held.popleft()])
    for tenant, weight in weights.items():
        assert abs(served[tenant] / 320 - weight / 8) <= WEIGHT_TOLERANCE, served


async def test_long_work_holds_no_more_than_its_share_of_the_leases(under_test: QueueUnderTest):
    """Of ten consumers, "slow" never finishes; "quick" finishes at once. By deliveries alone "slow" would hold all."""
    await fill(under_test.queue, "slow", 60)
    await fill(under_test.queue, "quick", 250)
    holding = 0
    for _ in range(40):
        leases = await take(under_test.queue, 10 - holding)
        holding += sum(lease.item.tenant == "slow" for lease in leases)
        await under_test.queue.acknowledge([lease for lease in leases if lease.item.tenant == "quick"])
    assert holding == 5


async def test_a_lane_alone_gets_everything(under_test: QueueUnderTest):
    await fill(under_test.queue, "alone", 50)
    assert len(await take(under_test.queue, 40)) == 40


async def test_a_lane_keeps_no_credit_for_a_pause(under_test: QueueUnderTest):
    await fill(under_test.queue, "late", 1)
    await under_test.queue.acknowledge(await take(under_test.queue))
    await fill(under_test.queue, "early", 100)
    for _ in range(40):
        await under_test.queue.acknowledge(await take(under_test.queue))
    await fill(under_test.queue, "late", 20)
    served: Counter[str] = Counter()
    for _ in range(20):
        leases = await take(under_test.queue)
        served[leases[0].item.tenant] += 1
        await under_test.queue.acknowledge(leases)
    assert abs(served["late"] - 10) <= 1


async def test_a_cap_holds_a_lane_back_and_a_freed_slot_wakes_who_waits(under_test: QueueUnderTest):
    await under_test.queue.set_lane_policy(Q, "acme", LanePolicy(max_in_flight=2))
    await fill(under_test.queue, "acme", 4)
    await fill(under_test.queue, "other", 1)
    leases = await take(under_test.queue, 10)
    assert Counter(lease.item.tenant for lease in leases) == {"acme": 2, "other": 1}
    assert await take(under_test.other, 10) == []
    waiting = asyncio.create_task(take(under_test.other, 10, wait_ms=30_000))
    await asyncio.sleep(0)
    await under_test.queue.acknowledge([lease for lease in leases if lease.item.tenant == "acme"][:1])
    async with asyncio.timeout(5):
        assert tokens(await waiting) == ["acme/2"]
    assert await take(under_test.other, 10) == []
    await under_test.queue.set_lane_policy(Q, "acme", LanePolicy())
    assert tokens(await take(under_test.other, 10)) == ["acme/3"]


async def test_a_lease_that_runs_out_frees_its_slot(under_test: QueueUnderTest):
    await under_test.queue.set_lane_policy(Q, "acme", LanePolicy(max_in_flight=1))
    await fill(under_test.queue, "acme", 2)
    assert tokens(await take(under_test.queue, 5)) == ["acme/0"]
    assert await take(under_test.queue, 5) == []
    await under_test.expire_leases()
    assert tokens(await take(under_test.queue, 5)) == ["acme/0"]
    assert await under_test.queue.withdraw(Q, ["acme/0"]) == {"acme/0": "leased"}
    assert tokens(await take(under_test.queue, 5, wait_ms=5_000)) == ["acme/1"]


async def test_a_queue_has_a_cap_of_its_own(under_test: QueueUnderTest):
    await under_test.queue.set_queue_policy(Q, QueuePolicy(max_in_flight=3))
    for tenant in ("a", "b"):
        await fill(under_test.queue, tenant, 5)
    leases = await take(under_test.queue, 10)
    assert len(leases) == 3
    waiting = asyncio.create_task(take(under_test.other, 10, wait_ms=30_000))
    await asyncio.sleep(0)
    await under_test.queue.acknowledge(leases[:2])
    async with asyncio.timeout(5):
        assert len(await waiting) == 2


async def test_a_rate_holds_a_lane_back_for_a_time(under_test: QueueUnderTest):
    await under_test.queue.set_lane_policy(Q, "acme", LanePolicy(rate_per_s=4, burst=3))
    await fill(under_test.queue, "acme", 5)
    await fill(under_test.queue, "other", 2)
    leases = await take(under_test.queue, 10)
    assert Counter(lease.item.tenant for lease in leases) == {"acme": 3, "other": 2}
    assert await take(under_test.queue, 10) == []
    began_s = asyncio.get_running_loop().time()
    assert tokens(await take(under_test.queue, 10, wait_ms=20_000)) == ["acme/3"]
    assert tokens(await take(under_test.queue, 10, wait_ms=20_000)) == ["acme/4"]
    assert asyncio.get_running_loop().time() - began_s >= 0.4


async def test_hundreds_of_lanes_are_all_served(under_test: QueueUnderTest):
    tenants = [f"tenant {number:03}" for number in range(200)]
    await under_test.queue.enqueue([item(tenant, tenant) for tenant in tenants])
    await under_test.queue.enqueue([item(f"{tenant}/2", tenant) for tenant in tenants])
    first = await take(under_test.queue, 200)
    assert sorted(lease.item.tenant for lease in first) == tenants
    second = await take(under_test.queue, 256)
    assert sorted(lease.item.tenant for lease in second) == tenants


async def test_lanes_that_are_held_back_are_in_nobodys_way(under_test: QueueUnderTest):
    tenants = [f"capped {number:03}" for number in range(100)]
    for tenant in tenants:
        await under_test.queue.set_lane_policy(Q, tenant, LanePolicy(max_in_flight=1))
    await under_test.queue.enqueue([item(f"{tenant}/{n}", tenant) for tenant in tenants for n in range(2)])
    assert len(await take(under_test.queue, 150)) == 100
    await under_test.queue.enqueue([item("free", "zz")])
    assert tokens(await take(under_test.queue, 10)) == ["free"]


@pytest.mark.parametrize(
    "policy", [{"weight": 0}, {"weight": 1_001}, {"max_in_flight": 0}, {"rate_per_s": 0}, {"burst": 0}]
)
def test_policies_are_bounded(policy: dict[str, int]):
    with pytest.raises(ValueError, match="out of bounds"):
        LanePolicy(**policy)
