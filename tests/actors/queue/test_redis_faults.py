"""What the queue does when Redis is flushed, killed, frozen, read-only, full or forgetful; a server for each test."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import LanePolicy, Lease, QueueDisturbance, QueuePolicy
from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queue.tiered import STUCK_BOUND_MS, TieredQueue
from ductor.journal.postgres.settings import ConnectionSettings
from tests.postgres_fixtures import Database
from tests.queue_harness import LONG_MS, Q, item, take, tokens
from tests.redis_server import RedisServer, redis_server_of_its_own


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server_of_its_own() as started:
        yield started


class Owner:
    """Who has items in flight: it enqueues them again when the queue tells it to."""

    def __init__(self) -> None:
        self.disturbances: list[QueueDisturbance] = []
        self.told = asyncio.Event()

    def note(self, disturbance: QueueDisturbance) -> None:
        self.disturbances.append(disturbance)
        self.told.set()

    async def until_told(self) -> QueueDisturbance:
        async with asyncio.timeout(STUCK_BOUND_MS / 1_000):
            await self.told.wait()
        self.told.clear()
        return self.disturbances[-1]


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
async def queue(server: RedisServer, owner: Owner) -> AsyncIterator[RedisQueue]:
    redis_queue = RedisQueue(RedisSettings(url=server.url), owner.note)
    await redis_queue.open()
    yield redis_queue
    await redis_queue.close()


@pytest.fixture
async def tiered(server: RedisServer, owner: Owner, database: Database) -> AsyncIterator[TieredQueue]:
    """With the settings that a host has."""
    first = RedisQueue(RedisSettings(url=server.url), owner.note)
    both = TieredQueue(first, PostgresQueue(ConnectionSettings(dsn=database.dsn)), owner.note)
    await both.open()
    yield both
    await both.close()


async def test_a_flushed_server_is_noticed_and_takes_everything_again(
    server: RedisServer, queue: RedisQueue, owner: Owner
):
    await queue.set_lane_policy(Q, "acme", LanePolicy(max_in_flight=1))
    await queue.enqueue([item(1), item(2)])
    old = await take(queue)
    with server.client() as client:
        client.flushall()
    assert (await queue.health()).is_available
    disturbance = await owner.until_told()
    assert (disturbance.tier, disturbance.reason) == ("redis", "epoch_changed")
    assert disturbance.previous_epoch != disturbance.epoch
    assert await queue.held(Q, ["1", "2"]) == {}
    assert await queue.enqueue([item(1), item(2)]) == ["enqueued"] * 2
    assert await queue.renew(old, visibility_ms=1_000) == [False]
    assert tokens(await take(queue, 5)) == ["1"], "the lane's cap was set again"
    assert len(owner.disturbances) == 1


async def test_another_process_notices_by_its_next_call(server: RedisServer, queue: RedisQueue, owner: Owner):
    second_owner = Owner()
    second = RedisQueue(RedisSettings(url=server.url), second_owner.note)
    await second.open()
    await second.enqueue([item(1)])
    await queue.health()
    with server.client() as client:
        client.flushall()
    await queue.enqueue([item(2)])
    assert await take(second, 5)
    assert second_owner.disturbances[0].epoch == owner.disturbances[0].epoch
    await second.close()


async def test_scripts_that_the_server_forgot_are_sent_again(server: RedisServer, queue: RedisQueue, owner: Owner):
    await queue.enqueue([item(1)])
    with server.client() as client:
        client.script_flush()
    leases = await take(queue)
    with server.client() as client:
        client.script_flush()
    assert await queue.acknowledge(leases) == [True]
    assert owner.disturbances == []


async def test_a_killed_server_that_comes_back_empty_is_another_one(
    server: RedisServer, queue: RedisQueue, owner: Owner
):
    await queue.enqueue([item(1)])
    await queue.health()
    server.kill()
    with pytest.raises(QueueUnavailableError, match="redis"):
        await queue.enqueue([item(2)])
    health = await queue.health()
    assert not health.is_available
    assert health.reason
    server.start()
    assert await queue.enqueue([item(1)]) == ["enqueued"]
    assert (await owner.until_told()).reason == "epoch_changed"


async def test_a_server_that_comes_back_with_its_file_may_still_have_lost_the_end(owner: Owner):
    with redis_server_of_its_own({"appendonly": "yes", "appendfsync": "always"}) as server:
        queue = RedisQueue(RedisSettings(url=server.url), owner.note)
        await queue.open()
        await queue.enqueue([item(1)])
        await queue.health()
        server.kill()
        server.start()
        assert (await queue.health()).is_available
        assert (await owner.until_told()).reason == "epoch_changed"
        assert tokens(await take(queue)) == ["1"]
        await queue.close()


@pytest.mark.parametrize(
    "break_it",
    [
        {"replicaof": "127.0.0.1 1"},
        {"min-replicas-to-write": "1"},
    ],
    ids=["read-only", "too few replicas"],
)
async def test_a_server_that_refuses_to_write_does_not_serve(
    server: RedisServer, queue: RedisQueue, break_it: dict[str, str]
):
    await queue.enqueue([item(1)])
    with server.client() as client:
        for name, value in break_it.items():
            if name == "replicaof":
                client.replicaof(*value.split())
            else:
                client.config_set(name, value)
        version = int(client.info("server")["redis_version"].partition(".")[0])
    if "replicaof" in break_it or version >= 7:  # before, such a server let scripts write
        with pytest.raises(QueueUnavailableError):
            await take(queue)
    assert not (await queue.health()).is_available


async def test_a_full_server_takes_no_items_and_lets_those_that_it_has_be_finished(
    server: RedisServer, queue: RedisQueue
):
    await queue.enqueue([item(number) for number in range(3)])
    leases = await take(queue, 2)
    with server.client() as client:
        client.config_set("maxmemory", "1")
    with pytest.raises(QueueUnavailableError, match="maxmemory"):
        await queue.enqueue([item(7)])
    assert await queue.acknowledge(leases) == [True, True]
    with server.client() as client:
        client.config_set("maxmemory", "0")
    assert await queue.enqueue([item(7)]) == ["enqueued"]
    assert tokens(await take(queue, 5)) == ["2", "7"]


async def test_a_frozen_server_costs_a_caller_no_more_than_the_bound(server: RedisServer, queue: RedisQueue):
    await queue.enqueue([item(1)])
    waiting = asyncio.create_task(take(queue, queues=("elsewhere",), wait_ms=60_000))
    await asyncio.sleep(0)
    server.freeze()
    async with asyncio.timeout(STUCK_BOUND_MS / 1_000):
        with pytest.raises(QueueUnavailableError):
            await take(queue)
        with pytest.raises(QueueUnavailableError):
            await waiting
    server.thaw()
    assert tokens(await take(queue, wait_ms=10_000)) == ["1"]


def flush(server: RedisServer) -> None:
    with server.client() as client:
        client.flushall()


def make_replica(server: RedisServer) -> None:
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)


def make_primary(server: RedisServer) -> None:
    with server.client() as client:
        client.replicaof("NO", "ONE")


FAULTS = {
    "flushed": (flush, lambda server: None),
    "killed": (RedisServer.kill, RedisServer.start),
    "frozen": (RedisServer.freeze, RedisServer.thaw),
    "read-only": (make_replica, make_primary),
}


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


async def test_a_cancelled_caller_leaves_no_lease_behind(queue: RedisQueue, server: RedisServer):
    await queue.enqueue([item(1)])
    server.freeze()
    asking = asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    server.thaw()
    (lease,) = await take(queue, wait_ms=10_000)
    assert lease.delivery == 1


async def test_all_keys_of_a_shard_lie_in_one_slot_of_a_cluster() -> None:
    """A cluster of one node refuses scripts whose keys lie in several slots, and keys that a script did not declare."""
    with redis_server_of_its_own({"cluster-enabled": "yes"}) as server:
        with server.client() as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            while client.cluster("INFO")["cluster_state"] != "ok":
                client.ping()
        queue = RedisQueue(RedisSettings(url=server.url, is_cluster=True))
        await queue.open()
        await queue.set_lane_policy("a", "acme", LanePolicy(weight=3, rate_per_s=1_000, burst=10))
        await queue.enqueue([item(1, queue="a"), item(2, queue="b"), item(3, "other", queue="a")])
        leases = await take(queue, 5, queues=("b", "a", "c"), wait_ms=1_000)
        assert sorted(tokens(leases)) == ["1", "2", "3"]
        assert await queue.release(leases[:1]) == [True]
        assert await queue.acknowledge(leases[1:]) == [True, True]
        assert (await queue.depth("b")).queued == 1
        assert await take(queue, queues=("c", "a"), wait_ms=20) == []
        assert (await queue.health()).is_available
        await queue.close()


def test_a_server_is_found() -> None:
    with redis_server_of_its_own() as server, server.client() as client:
        assert client.info("server")["redis_version"] >= "6.2"
        assert isinstance(client, redis.Redis)
