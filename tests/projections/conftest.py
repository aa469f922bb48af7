"""A store and a connection of the test's own."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore
from tests.postgres_fixtures import Database


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.dsn)
    yield connection
    await connection.close()
