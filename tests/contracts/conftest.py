"""The store under test, once for each implementation."""

from collections.abc import AsyncIterator

import pytest

from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store

IMPLEMENTATIONS = ["memory"]


@pytest.fixture(params=IMPLEMENTATIONS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """An open store without rows."""
    opened = MemoryStore(SystemClock())
    await opened.open()
    yield opened
    await opened.close()
