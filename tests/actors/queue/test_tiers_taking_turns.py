"""Redis goes and comes back: PostgreSQL serves meanwhile, nothing is stuck, handed out twice or left uncounted."""

import asyncio

import pytest

from ductor.actors.queue.items import LanePolicy, Lease, QueuePolicy
from ductor.actors.queue.tiered import STUCK_BOUND_MS, TieredQueue
from tests.actors.queue.faults import FAULTS, Owner, make_primary, make_replica
from tests.queue_harness import LONG_MS, Q, item, take, tokens
from tests.redis_server import RedisServer


@pytest.mark.parametrize("fault", FAULTS)
async def test_nothing_is_stuck_for_longer_than_the_bound(
    server: RedisServer, tiered: TieredQueue, owner: Owner, fault: str
):
    """Everything enqueued before the fault is leased within the bound, though somebody was waiting all the time."""
    break_it, mend_it = FAULTS[fault]
    items = [item(number, tenant=f"tenant {number % 3}") for number in range(30)]
    assert await tiered.enqueue(items) == ["enqueued"] * 30
    await asyncio.to_thread(break_it, server)
    found: set[str] = set()
    async with asyncio.timeout(STUCK_BOUND_MS / 1_000):
        await owner.until_told()
        await tiered.enqueue(items)
        while len(found) < 30:
            leases = await take(tiered, 7, wait_ms=1_000)
            found.update(tokens(leases))
            await tiered.acknowledge(leases)
    await asyncio.to_thread(mend_it, server)


@pytest.mark.parametrize("fault", ["killed", "frozen", "read-only"])
async def test_work_goes_on_without_redis_and_returns_to_it(
    server: RedisServer, tiered: TieredQueue, owner: Owner, fault: str
):
    break_it, mend_it = FAULTS[fault]
    await asyncio.to_thread(break_it, server)
    waiting = asyncio.create_task(take(tiered, wait_ms=60_000))
    assert await tiered.enqueue([item("during")]) == ["enqueued"]
    (during,) = await waiting
    assert (during.item.token, during.tier) == ("during", "postgres")
    assert await tiered.enqueue([item("left over")]) == ["enqueued"]
    await owner.until_told()
    await asyncio.to_thread(mend_it, server)
    async with asyncio.timeout(10):
        number, tier = 0, ""
        while tier != "redis":
            number += 1
            await tiered.enqueue([item(f"probe {number}")])
            leases = await take(tiered, wait_ms=1_000)
            tier = leases[0].tier if leases else ""
            assert await tiered.acknowledge(leases) == [True] * len(leases)
    assert await tiered.acknowledge([during]) == [True]
    left: set[str] = set()
    while leases := await take(tiered, 10, wait_ms=50):
        left.update(tokens(leases))
    assert "during" not in left
    assert (await tiered.health()).is_available


async def test_what_was_done_while_redis_was_away_is_not_delivered_by_it_again(
    server: RedisServer, tiered: TieredQueue, owner: Owner
):
    await tiered.enqueue([item("acknowledged"), item("withdrawn"), item("kept")])
    leases = await take(tiered)
    server.freeze()
    await owner.until_told()
    assert await tiered.acknowledge(leases) == [False]
    assert await tiered.renew(leases, visibility_ms=1_000) == [True]
    assert await tiered.withdraw(Q, ["withdrawn"]) == {}
    server.thaw()
    async with asyncio.timeout(10):
        while await tiered.held(Q, ["kept"]) == {}:
            await take(tiered, queues=("elsewhere",), wait_ms=20)
    assert await tiered.held(Q, ["acknowledged", "withdrawn", "kept"]) == {"kept": "queued"}


async def until_redis_is_back(server: RedisServer, tiered: TieredQueue) -> None:
    """Wait until the queue hands out what Redis has again."""
    async with asyncio.timeout(10):
        while not await tiered.enqueue([item("probe", queue="probes")]) or not (await tiered_redis(server, "probes")):
            await tiered.withdraw("probes", ["probe"])
            await take(tiered, queues=("elsewhere",), wait_ms=20)


async def test_what_postgres_holds_is_brought_back_and_served_by_redis(
    server: RedisServer, tiered: TieredQueue, owner: Owner
):
    await asyncio.to_thread(make_replica, server)
    await tiered.enqueue([item(f"postgres {number}") for number in range(40)])
    (delivered,) = await take(tiered, visibility_ms=1)
    await owner.until_told()
    await asyncio.to_thread(make_primary, server)
    await until_redis_is_back(server, tiered)
    await tiered.enqueue([item(f"redis {number}") for number in range(40)])
    leases: list[Lease] = []
    async with asyncio.timeout(30):
        while len(leases) < 80:
            leases += await take(tiered, 7, wait_ms=1_000)
    assert sorted(tokens(leases)) == sorted(
        [f"{tier} {number}" for tier in ("postgres", "redis") for number in range(40)]
    )
    assert {lease.tier for lease in leases} == {"redis"}
    assert [lease.item.token for lease in leases if lease.delivery == 2] == [delivered.item.token]
    assert await tiered.acknowledge(leases) == [True] * 80
    depth = await tiered.depth(Q)
    assert (depth.queued, depth.in_flight) == (0, 0)


async def test_what_a_full_redis_does_not_take_stays_in_postgres(tiered: TieredQueue):
    await tiered.set_queue_policy(Q, QueuePolicy(max_queued=2))
    assert await tiered.enqueue([item(number) for number in range(4)]) == ["enqueued"] * 4
    first, second = tiered.tiers
    assert ((await first.depth(Q)).queued, (await second.depth(Q)).queued) == (2, 2)
    found: list[str] = []
    async with asyncio.timeout(30):
        while len(found) < 4:
            leases = await take(tiered, 1, wait_ms=1_000)
            found += tokens(leases)
            await tiered.acknowledge(leases)
    assert sorted(found) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("fault", ["killed", "frozen", "read-only"])
async def test_a_cap_counts_what_is_in_flight_of_both_tiers(
    server: RedisServer, tiered: TieredQueue, owner: Owner, fault: str
):
    """From the fault to its mending, and after it, and nothing is handed out a second time."""
    break_it, mend_it = FAULTS[fault]
    items = [item(number) for number in range(6)]
    await tiered.set_lane_policy(Q, "acme", LanePolicy(max_in_flight=3))
    await tiered.enqueue(items)
    held = await take(tiered, 10)
    assert len(held) == 3
    seen = tokens(held)
    await asyncio.to_thread(break_it, server)
    await owner.until_told()
    assert sorted(await tiered.enqueue(items)) == ["enqueued"] * 3 + ["held"] * 3
    assert await take(tiered, 10) == []
    await tiered.acknowledge([held.pop(0)])
    leases = await take(tiered, 10, wait_ms=5_000)
    assert [lease.tier for lease in leases] == ["postgres"]
    held += leases
    seen += tokens(leases)
    assert await take(tiered, 10) == []
    assert await tiered.renew(held, visibility_ms=LONG_MS) == [True] * 3
    await asyncio.to_thread(mend_it, server)
    await until_redis_is_back(server, tiered)
    assert await take(tiered, 10, wait_ms=100) == []
    assert await tiered.renew(held, visibility_ms=LONG_MS) == [True] * 3
    while len(seen) < 6:
        await tiered.acknowledge([held.pop(0)])
        leases = await take(tiered, 10, wait_ms=5_000)
        assert [lease.tier for lease in leases] == ["redis"]
        held += leases
        seen += tokens(leases)
    assert sorted(seen) == ["0", "1", "2", "3", "4", "5"]
    await tiered.acknowledge(held)
    for tier in tiered.tiers:
        depth = await tier.depth(Q)
        assert (depth.queued, depth.in_flight) == (0, 0)


async def test_what_is_returned_while_redis_is_away_is_served_by_postgres(
    server: RedisServer, tiered: TieredQueue, owner: Owner
):
    await tiered.enqueue([item("returned")])
    leases = await take(tiered)
    server.freeze()
    await owner.until_told()
    async with asyncio.timeout(10):
        while not await tiered.held(Q, ["returned"]):
            await take(tiered, queues=("elsewhere",), wait_ms=20)
    await tiered.release(leases)
    (again,) = await take(tiered, wait_ms=5_000)
    assert (again.item.token, again.tier, again.delivery) == ("returned", "postgres", 1)
    server.thaw()


async def test_a_rate_begins_anew_when_the_tiers_take_turns(server: RedisServer, tiered: TieredQueue, owner: Owner):
    """What that can mean is a burst more, and no more than that."""
    await tiered.set_lane_policy(Q, "acme", LanePolicy(rate_per_s=0.001, burst=2))
    items = [item(number) for number in range(9)]
    await tiered.enqueue(items)
    assert len(await take(tiered, 10)) == 2
    server.freeze()
    await owner.until_told()
    await tiered.enqueue(items)
    assert len(await take(tiered, 10, wait_ms=100)) == 2
    assert await take(tiered, 10) == []
    server.thaw()
    await until_redis_is_back(server, tiered)
    assert await take(tiered, 10, wait_ms=100) == []


async def tiered_redis(server: RedisServer, queue: str) -> int:
    """How many items Redis holds of a queue."""

    def count() -> int:
        with server.client() as client:
            found: int = client.hlen(f"{{ductor}}:records:{queue}")
            return found

    return await asyncio.to_thread(count)
