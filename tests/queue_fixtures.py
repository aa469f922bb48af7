"""The distributed queue under test, once for each tier."""

import itertools
import os
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from ductor.actors.queue.items import QueueDisturbance
from ductor.actors.queue.memory import MemoryQueue
from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queue.tiered import TieredQueue
from ductor.journal.clock import SystemClock
from ductor.journal.postgres.settings import ConnectionSettings
from tests.postgres_fixtures import Database
from tests.queue_harness import QueueUnderTest
from tests.redis_server import RedisServer, redis_server_of_its_own, reserve_port

PATIENT_MS = 10_000
"""Tests that are not about time must not fail for a busy machine."""

_numbers = itertools.count(1)


@pytest.fixture
async def memory_queue() -> QueueUnderTest:
    """What is in memory has no second way in."""
    queue = MemoryQueue(SystemClock())
    await queue.open()

    async def expire_leases() -> None:
        queue.expire_leases()

    return QueueUnderTest(queue, queue, expire_leases)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for all tests that do it no harm; each takes a shard of its own."""
    with redis_server_of_its_own() as server:
        yield server


@pytest.fixture
def redis_settings(redis_server: RedisServer) -> RedisSettings:
    """A shard without items."""
    shard = f"test-{os.getpid()}-{next(_numbers)}"
    return RedisSettings(
        url=redis_server.url, shard=shard, command_timeout_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS
    )


def expire_leases_in_redis(server: RedisServer, shard: str) -> None:
    """Let every lease of the shard have run out long ago."""
    with server.client() as client:
        for key in client.scan_iter(f"{{{shard}}}:leased:*"):
            client.zunionstore(key, {key: 0})


@pytest.fixture
async def redis_queue(redis_server: RedisServer, redis_settings: RedisSettings) -> AsyncIterator[QueueUnderTest]:
    """The Redis tier as two processes have it."""
    queue, other = RedisQueue(redis_settings), RedisQueue(redis_settings)
    await queue.open()
    await other.open()

    async def expire_leases() -> None:
        expire_leases_in_redis(redis_server, redis_settings.shard)

    yield QueueUnderTest(queue, other, expire_leases)
    await queue.close()
    await other.close()


async def expire_leases_in_postgres(dsn: str) -> None:
    """Let every lease have run out long ago."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("UPDATE ductor.eec_task_item SET until_us = 1 WHERE state = 'leased'")
    finally:
        await connection.close()


@pytest.fixture
async def postgres_queue(database: Database) -> AsyncIterator[QueueUnderTest]:
    """The PostgreSQL tier as two processes have it."""
    settings = ConnectionSettings(dsn=database.dsn)
    queue, other = PostgresQueue(settings), PostgresQueue(settings)
    await queue.open()
    await other.open()

    async def expire_leases() -> None:
        await expire_leases_in_postgres(database.dsn)

    yield QueueUnderTest(queue, other, expire_leases)
    await queue.close()
    await other.close()


@pytest.fixture
async def tiered_queue(
    redis_server: RedisServer, redis_settings: RedisSettings, database: Database
) -> AsyncIterator[QueueUnderTest]:
    """Redis before PostgreSQL as two processes have them; both serve."""

    def refuse(disturbance: QueueDisturbance) -> None:
        raise AssertionError(disturbance)

    async def expire_leases() -> None:
        expire_leases_in_redis(redis_server, redis_settings.shard)
        await expire_leases_in_postgres(database.dsn)

    postgres = ConnectionSettings(dsn=database.dsn)
    queue, other = (TieredQueue(RedisQueue(redis_settings, refuse), PostgresQueue(postgres), refuse) for _ in range(2))
    await queue.open()
    await other.open()
    yield QueueUnderTest(queue, other, expire_leases, tiers=2)
    await queue.close()
    await other.close()


@pytest.fixture
async def second_tier_alone(database: Database) -> AsyncIterator[QueueUnderTest]:
    """Redis before PostgreSQL where there is no Redis."""
    port, reservation = reserve_port()
    nowhere = RedisSettings(url=f"redis://127.0.0.1:{port}/0")

    def note(disturbance: QueueDisturbance) -> None:
        assert disturbance.reason == "unavailable"

    async def expire_leases() -> None:
        await expire_leases_in_postgres(database.dsn)

    postgres = ConnectionSettings(dsn=database.dsn)
    queue, other = (TieredQueue(RedisQueue(nowhere), PostgresQueue(postgres), note) for _ in range(2))
    await queue.open()
    await other.open()
    yield QueueUnderTest(queue, other, expire_leases)
    await queue.close()
    await other.close()
    reservation.close()


@pytest.fixture(params=["memory_queue", "redis_queue", "postgres_queue", "tiered_queue", "second_tier_alone"])
def under_test(request: pytest.FixtureRequest) -> QueueUnderTest:
    """An open queue without items."""
    opened: QueueUnderTest = request.getfixturevalue(request.param)
    return opened


@pytest.fixture(params=["memory_queue", "redis_queue", "postgres_queue"])
def tier_under_test(request: pytest.FixtureRequest) -> QueueUnderTest:
    """An open tier without items, of those that keep items themselves."""
    opened: QueueUnderTest = request.getfixturevalue(request.param)
    return opened
