"""The store under test, once for each implementation."""

from collections.abc import AsyncIterator, Iterator

import pytest

from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres.statements import commit_statement
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


@pytest.fixture
async def second_postgres_store(database: Database) -> AsyncIterator[PostgresStore]:
    """Another open store on the same database."""
    store = PostgresStore(database.dsn)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def second_memory_store(memory_store: MemoryStore) -> MemoryStore:
    """What is in memory has no second way in."""
    return memory_store


@pytest.fixture(params=["memory_store", "postgres_store"])
def store(request: pytest.FixtureRequest) -> Store:
    """An open store without rows."""
    opened: Store = request.getfixturevalue(request.param)
    return opened


@pytest.fixture
def second_store(request: pytest.FixtureRequest, store: Store) -> Store:
    """What another host has on the same rows."""
    name = "second_memory_store" if isinstance(store, MemoryStore) else "second_postgres_store"
    opened: Store = request.getfixturevalue(name)
    return opened


@pytest.fixture
def low_bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds that a test can reach with a few rows."""
    for module in ("ductor.journal.memory_messages", "ductor.journal.postgres.messages"):
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_MESSAGES", 2)
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_EVENTS", 3)
    for module in ("ductor.journal.memory_messages", "ductor.journal.postgres.statements"):
        monkeypatch.setattr(f"{module}.MAX_UNCONSUMED_SENT_MESSAGES", 3)
    commit_statement.cache_clear()
    yield
    commit_statement.cache_clear()
