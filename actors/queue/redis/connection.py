"""One Redis server, and how scripts are run on it: bounded in time, known by digest, every failure told as one error.

Failure cases
- The server does not know a script (it restarted, its script cache was flushed): the script is sent, once.
- A connection was lost before (the server restarted): the call is sent again on a new one, once. Scripts may be
  repeated: an item enqueued twice is held once, and a lease whose answer was lost runs out.
- The server does not answer within `command_timeout_ms`, refuses to write (replica, too few replicas, out of memory,
  loading), or is away: QueueUnavailableError. Redis before 7 lets scripts write with too few replicas: `write` finds
  that out.
- The shard's epoch is another than before: the server lost what it held. `on_disturbance` is told, once for each
  change.
"""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Final

import redis.asyncio as redis_client
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError

from ductor.actors.queue.distributed import OnDisturbance
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import QueueDisturbance
from ductor.actors.queue.redis.scripts import KEYS_OF_A_QUEUE, SCRIPTS
from ductor.actors.queue.redis.settings import RedisSettings

TIER: Final = "redis"
PROBE_KEPT_S: Final = 60
"""For so long what a probe wrote stays, so that nothing of a shard is left that nobody uses."""
RING_WAIT_MAX_MS: Final = 1_000
"""Who waits looks again after this, even if nobody rang: a ring may have been taken by somebody who died of it."""
_LOST: Final = (RedisError, RedisClusterException, OSError, TimeoutError)

_logger = logging.getLogger(__name__)

Argument = str | bytes | int
Answer = list[bytes | int]


class RedisConnection:
    """Runs scripts. `epoch` is the shard's as last seen, empty before the first answer."""

    def __init__(self, settings: RedisSettings, on_disturbance: OnDisturbance) -> None:
        self._settings = settings
        self._on_disturbance = on_disturbance
        self._epoch_key = f"{{{settings.shard}}}:epoch"
        self._probe_key = f"{{{settings.shard}}}:probe"
        self._client: _Client | None = None
        self._waiting_client: _Client | None = None
        self._waiting = asyncio.Semaphore(settings.max_waiting)
        self._replication_id = ""
        self.epoch = ""

    def open(self) -> None:
        """Make ready to connect. Nothing is sent."""
        settings = self._settings
        self._waiting = asyncio.Semaphore(settings.max_waiting)
        self._client = self._make_client(settings.command_timeout_ms, settings.max_connections)
        self._waiting_client = self._make_client(RING_WAIT_MAX_MS + settings.command_timeout_ms, settings.max_waiting)

    def _make_client(self, timeout_ms: int, max_connections: int) -> "_Client":
        settings = self._settings
        connect_timeout_s = settings.connect_timeout_ms / 1_000
        if settings.is_cluster:
            return redis_client.RedisCluster.from_url(
                settings.url,
                socket_timeout=timeout_ms / 1_000,
                socket_connect_timeout=connect_timeout_s,
                max_connections=max_connections,
            )
        pool = redis_client.BlockingConnectionPool.from_url(
            settings.url,
            timeout=timeout_ms / 1_000,
            max_connections=max_connections,
            socket_timeout=timeout_ms / 1_000,
            socket_connect_timeout=connect_timeout_s,
            retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        )
        return redis_client.Redis.from_pool(pool)

    async def close(self) -> None:
        """Disconnect."""
        clients = (self._client, self._waiting_client)
        self._client = self._waiting_client = None
        for client in clients:
            if client is not None:
                await client.aclose()

    def key(self, queue: str, name: str) -> str:
        """The name of one of a queue's keys."""
        return f"{{{self._settings.shard}}}:{name}:{queue}"

    async def run(self, name: str, queues: Sequence[str], *arguments: Argument) -> Answer:
        """A script's answer without the epoch that it begins with. Raises QueueUnavailableError."""
        keys = [self._epoch_key, *(self.key(queue, key) for queue in queues for key in KEYS_OF_A_QUEUE)]
        client = _connected(self._client)
        script = SCRIPTS[name]
        values = (uuid.uuid4().hex, *arguments)
        try:
            try:
                answer: Answer = await client.evalsha(script.digest, len(keys), *keys, *values)
            except NoScriptError:
                answer = await client.eval(script.text, len(keys), *keys, *values)
        except _LOST as error:
            raise unavailable(error) from error
        first = answer[0]
        assert isinstance(first, bytes), "every script answers the epoch first"
        self._note_epoch(first.decode())
        return answer[1:]

    async def write(self) -> None:
        """Write something by a command of its own, which the server refuses when it takes no writes.

        Raises QueueUnavailableError.
        """
        try:
            await _connected(self._client).set(self._probe_key, b"1", ex=PROBE_KEPT_S)
        except _LOST as error:
            raise unavailable(error) from error

    async def wait_for_ring(self, queues: Sequence[str], timeout_ms: int) -> None:
        """Return when one of the queues rings, or after the time or RING_WAIT_MAX_MS. Raises QueueUnavailableError."""
        client = _connected(self._waiting_client)
        timeout_s = min(max(timeout_ms, 1), RING_WAIT_MAX_MS) / 1_000
        bells = [self.key(queue, "bell") for queue in queues]
        try:
            async with asyncio.timeout(timeout_s):
                await self._waiting.acquire()
        except TimeoutError:
            return
        # in a task of its own: the driver may miss that its caller was cancelled
        popping: asyncio.Future[object] = asyncio.ensure_future(client.blpop(bells, timeout=timeout_s))
        popping.add_done_callback(self._note_popped)
        try:
            await asyncio.shield(popping)
        except _LOST as error:
            raise unavailable(error) from error
        except asyncio.CancelledError:
            popping.cancel()
            raise

    async def replication_id(self) -> str:
        """What names the history of this server's data, empty where it is not told; a change is a disturbance."""
        client = _connected(self._client)
        if self._settings.is_cluster:
            return ""
        try:
            told = await client.info("replication")
        except _LOST as error:
            raise unavailable(error) from error
        found = str(told.get("master_replid", ""))
        previous, self._replication_id = self._replication_id, found
        if previous and found != previous:
            self._disturbed(f"{self.epoch}/{previous}", f"{self.epoch}/{found}")
        return found

    def _note_popped(self, popping: asyncio.Future[object]) -> None:
        self._waiting.release()
        if not popping.cancelled():
            popping.exception()  # who waits was told it; if nobody does, it is of no interest

    def _note_epoch(self, epoch: str) -> None:
        previous, self.epoch = self.epoch, epoch
        if previous and previous != epoch:
            self._disturbed(previous, epoch)

    def _disturbed(self, previous: str, epoch: str) -> None:
        self._on_disturbance(QueueDisturbance(tier=TIER, reason="epoch_changed", previous_epoch=previous, epoch=epoch))


_Client = redis_client.Redis | redis_client.RedisCluster


def _connected(client: _Client | None) -> _Client:
    if client is None:
        raise QueueUnavailableError(TIER, "the queue is not open")
    return client


def unavailable(error: Exception) -> QueueUnavailableError:
    """The error for callers of a tier whose server can't serve."""
    return QueueUnavailableError(TIER, f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
