"""What the queue does when Redis is flushed, killed, frozen, read-only, full or forgetful; a server for each test."""

import asyncio

import pytest
import redis

from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import LanePolicy
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queue.tiered import STUCK_BOUND_MS
from tests.actors.queue.faults import Owner
from tests.queue_harness import Q, item, take, tokens
from tests.redis_server import RedisServer, redis_server_of_its_own


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
