"""What befalls a Redis, and who has items in flight meanwhile."""

import asyncio

from ductor.actors.queue.items import QueueDisturbance
from ductor.actors.queue.tiered import STUCK_BOUND_MS
from tests.redis_server import RedisServer


class Owner:
    """Who has items in flight: it enqueues them again when the queue tells it to."""

    def __init__(self) -> None:
        self.disturbances: list[QueueDisturbance] = []
        self.told = asyncio.Event()

    def note(self, disturbance: QueueDisturbance) -> None:
        self.disturbances.append(disturbance)
        self.told.set()

    async def until_told(self) -> QueueDisturbance:
        async with asyncio.timeout(STUCK_BOUND_MS / 1_000):
            await self.told.wait()
        self.told.clear()
        return self.disturbances[-1]


def flush(server: RedisServer) -> None:
    with server.client() as client:
        client.flushall()


def make_replica(server: RedisServer) -> None:
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)


def make_primary(server: RedisServer) -> None:
    with server.client() as client:
        client.replicaof("NO", "ONE")


FAULTS = {
    "flushed": (flush, lambda server: None),
    "killed": (RedisServer.kill, RedisServer.start),
    "frozen": (RedisServer.freeze, RedisServer.thaw),
    "read-only": (make_replica, make_primary),
}
