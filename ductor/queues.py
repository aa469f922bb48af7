"""The queue between processes, for a process that owns no runs: a worker, or somebody who looks after dead letters."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.errors import NoQueueError
from ductor.actors.queue.items import QueueDisturbance
from ductor.actors.queue.opening import make_queue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.journal.store import Store


@asynccontextmanager
async def open_queue(store: Store, redis: RedisSettings | None) -> AsyncIterator[DistributedQueue]:
    """Open the queue of a store, and close it at the end.

    Raises NoQueueError for a store in memory, QueueUnavailableError when the database can't be reached.
    """
    queue = make_queue(store, redis, _leave_to_owners)
    if queue is None:
        raise NoQueueError(type(store).__name__)
    await queue.open()
    try:
        yield queue
    finally:
        await queue.close()


def _leave_to_owners(disturbance: QueueDisturbance) -> None:
    """The hosts that own the runs hear of it as well, and send again what was lost."""
