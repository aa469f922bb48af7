"""Which distributed queue a process uses: Redis before PostgreSQL where a Redis is named, else PostgreSQL alone."""

from collections.abc import Callable

from ductor.actors.queue.distributed import DistributedQueue, OnDisturbance
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.journal.store import Store

MakeQueue = Callable[[Store, RedisSettings | None, OnDisturbance], DistributedQueue | None]


def make_queue(store: Store, redis: RedisSettings | None, on_disturbance: OnDisturbance) -> DistributedQueue | None:
    """The queue of a store, not open yet. None where runs are kept in memory: there are no other processes.

    Args:
        on_disturbance: called on the event loop when items may have been lost, or can't be served; must not block.
    """
    from ductor.journal.postgres import PostgresStore  # noqa: PLC0415 - a driver that other stores don't need

    if not isinstance(store, PostgresStore):
        return None
    from ductor.actors.queue.postgres.queue import PostgresQueue  # noqa: PLC0415

    postgres = PostgresQueue(store.settings)
    if redis is None:
        return postgres
    from ductor.actors.queue.redis.queue import RedisQueue  # noqa: PLC0415
    from ductor.actors.queue.tiered import TieredQueue  # noqa: PLC0415

    return TieredQueue(RedisQueue(redis, on_disturbance), postgres, on_disturbance)


def redis_settings(address: str | RedisSettings | None) -> RedisSettings | None:
    """Settings of an address; an empty one, as of a variable set to nothing, is none."""
    if isinstance(address, str):
        return RedisSettings(url=address) if address else None
    return address
