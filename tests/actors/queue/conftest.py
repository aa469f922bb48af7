"""A Redis for each test, and the queue on it, alone and before PostgreSQL."""

from collections.abc import AsyncIterator, Iterator

import pytest

from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.actors.queue.tiered import TieredQueue
from ductor.journal.postgres.settings import ConnectionSettings
from tests.actors.queue.faults import Owner
from tests.postgres_fixtures import Database
from tests.redis_server import RedisServer, redis_server_of_its_own


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with redis_server_of_its_own() as started:
        yield started


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
