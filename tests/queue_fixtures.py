"""The distributed queue under test, once for each tier."""

import pytest

from ductor.actors.queue.memory import MemoryQueue
from ductor.journal.clock import SystemClock
from tests.queue_harness import QueueUnderTest


@pytest.fixture
async def memory_queue() -> QueueUnderTest:
    """What is in memory has no second way in."""
    queue = MemoryQueue(SystemClock())
    await queue.open()

    async def expire_leases() -> None:
        queue.expire_leases()

    return QueueUnderTest(queue, queue, expire_leases)


@pytest.fixture(params=["memory_queue"])
def under_test(request: pytest.FixtureRequest) -> QueueUnderTest:
    """An open queue without items."""
    opened: QueueUnderTest = request.getfixturevalue(request.param)
    return opened
