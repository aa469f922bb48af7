"""The store under test, once for each implementation."""

from collections.abc import AsyncIterator

import pytest

from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.store import Store
from tests.postgres_fixtures import Database


@pytest.fixture
async def memory_store() -> AsyncIterator[MemoryStore]:
    """An open store in memory."""
    store = MemoryStore(SystemClock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def postgres_store(database: Database) -> AsyncIterator[PostgresStore]:
    """An open store on a fresh database."""
    store = PostgresStore(database.dsn)
    await store.open()
    yield store
    await store.close()


@pytest.fixture(params=["memory_store", "postgres_store"])
def store(request: pytest.FixtureRequest) -> Store:
    """An open store without rows."""
    opened: Store = request.getfixturevalue(request.param)
    return opened
