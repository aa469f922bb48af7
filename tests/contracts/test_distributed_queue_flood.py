"""A small tenant beside one that floods the queue with 100,000 items, and several consumers."""

import asyncio

import pytest

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL
from tests.queue_harness import Q, QueueUnderTest, item, take

FLOOD = 100_000
CONSUMERS = 4
BATCH = 8
SMALL_ITEMS = 25
LANES = 2
# The rule's bound with equal weights, and what calls that were under way may have brought before the item was there.
DELIVERIES_BEFORE_SMALL_MAX = 2 * LANES + CONSUMERS * BATCH


@pytest.fixture(params=["memory_queue", "redis_queue", "postgres_queue"])
def flooded(request: pytest.FixtureRequest) -> QueueUnderTest:
    opened: QueueUnderTest = request.getfixturevalue(request.param)
    return opened


@pytest.mark.timeout(300)
async def test_a_flood_delays_a_small_tenant_by_a_few_deliveries(flooded: QueueUnderTest):
    for start in range(0, FLOOD, MAX_ITEMS_PER_CALL):
        numbers = range(start, min(start + MAX_ITEMS_PER_CALL, FLOOD))
        await flooded.queue.enqueue([item(number, "flood", priority=100) for number in numbers])
    assert (await flooded.queue.depth(Q)).queued == FLOOD
    deliveries = 0
    arrived: dict[str, asyncio.Future[int]] = {}
    done = asyncio.Event()

    async def consume(queue_number: int) -> None:
        nonlocal deliveries
        queue = (flooded.queue, flooded.other)[queue_number % 2]
        while not done.is_set():
            leases = await take(queue, BATCH, wait_ms=1_000)
            for lease in leases:
                if lease.item.tenant == "small":
                    arrived[lease.item.token].set_result(deliveries)
                deliveries += 1
            await queue.acknowledge(leases)

    consumers = [asyncio.create_task(consume(number)) for number in range(CONSUMERS)]
    waits = []
    for number in range(SMALL_ITEMS):
        token = f"small {number}"
        arrived[token] = asyncio.get_running_loop().create_future()
        await flooded.other.enqueue([item(token, "small", priority=-100)])
        before = deliveries
        waits.append(await arrived[token] - before)
    done.set()
    await asyncio.gather(*consumers)
    assert max(waits) <= DELIVERIES_BEFORE_SMALL_MAX, waits
