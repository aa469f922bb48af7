"""How often who waits at PostgreSQL's queue asks it: seldom while it is idle, often while items come."""

import asyncio
from typing import Any

import asyncpg
import pytest

from ductor.actors.queue.distributed import MAX_QUEUES_PER_LEASE
from ductor.actors.queue.items import QueueItem
from ductor.actors.queue.pacing import BUSY_PAUSE_MS, QUIET_SHARE
from ductor.actors.queue.postgres import queue as postgres_queue
from ductor.actors.queue.postgres.queue import PAUSE_PER_QUEUE_MS, POLL_MAX_MS, PostgresQueue
from ductor.journal.postgres.settings import ConnectionSettings
from tests.postgres_fixtures import Database


class CountingQueue(PostgresQueue):
    """Counts its looks for items."""

    looks = 0

    async def _fetch(self, query: str, **values: object) -> list[asyncpg.Record]:
        self.looks += query == "lease"
        return await super()._fetch(query, **values)


def queue_of(database: Database) -> CountingQueue:
    return CountingQueue(ConnectionSettings(dsn=database.dsn))


async def lease(queue: PostgresQueue, wait_ms: int) -> list[Any]:
    return await queue.lease(["default"], max_items=1, visibility_ms=60_000, wait_ms=wait_ms)


async def test_an_idle_queue_is_asked_once_a_second(database: Database):
    queue = queue_of(database)
    await queue.open()
    try:
        for _ in range(3):  # a call that begins anew does not begin to hurry
            assert await lease(queue, POLL_MAX_MS) == []
        assert 3 <= queue.looks <= 6
    finally:
        await queue.close()


async def test_items_of_another_process_are_seen_soon_while_items_come(
    database: Database, monkeypatch: pytest.MonkeyPatch
):
    """Its pauses are told, not its looks in some time: a busy machine has time for few of them."""
    consumer, producer = queue_of(database), queue_of(database)
    await consumer.open()
    await producer.open()
    pauses_ms: list[float] = []
    wait = postgres_queue._wait

    async def noting_wait(nudge: asyncio.Event, timeout_ms: int) -> None:
        pauses_ms.append(timeout_ms)
        await wait(nudge, timeout_ms)

    try:
        for number in range(5):
            waiting = asyncio.create_task(lease(consumer, 10_000))
            await producer.enqueue([QueueItem(token=f"t{number}", queue="default", tenant="acme", body=b"null")])
            (leased,) = await waiting
            assert leased.item.token == f"t{number}"
        monkeypatch.setattr(postgres_queue, "_wait", noting_wait)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while len(pauses_ms) < 8:
            assert await lease(consumer, 600) == []
        quiet_ms = (loop.time() - began_s) * 1_000
        assert max(pauses_ms) <= max(BUSY_PAUSE_MS, 2 * quiet_ms / QUIET_SHARE)
    finally:
        await consumer.close()
        await producer.close()


async def test_who_serves_many_queues_does_not_ask_more_questions(database: Database):
    queue = queue_of(database)
    await queue.open()
    try:
        names = [f"queue-{number}" for number in range(MAX_QUEUES_PER_LEASE)]
        await queue.enqueue([QueueItem(token="t", queue="queue-0", tenant="acme", body=b"null")])
        assert len(await queue.lease(names, max_items=1, visibility_ms=60_000)) == 1
        looks, wait_ms = queue.looks, 600
        assert await queue.lease(names, max_items=1, visibility_ms=60_000, wait_ms=wait_ms) == []
        assert queue.looks - looks <= wait_ms // PAUSE_PER_QUEUE_MS + 2 * len(names)
    finally:
        await queue.close()
