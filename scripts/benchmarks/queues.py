"""The distributed queue: items a second through enqueue, lease and acknowledge, beside the least a driver can do."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import redis.asyncio as redis_client

from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.items import QueueItem
from ductor.actors.queue.postgres.queue import PostgresQueue
from ductor.actors.queue.redis.queue import RedisQueue
from ductor.actors.queue.redis.settings import RedisSettings
from ductor.journal.postgres import migrate
from ductor.journal.postgres.settings import ConnectionSettings
from scripts.benchmarks.report import Table
from scripts.benchmarks.server import BenchmarkServer
from tests.redis_server import RedisServer

BATCHES = (1, 10, 100)
TENANTS = 10
BODY = b'{"type":"task","input":"' + b"x" * 400 + b'"}'
VISIBILITY_MS = 60_000
CALLERS = 8
"""Coroutines that enqueue, lease and acknowledge at once, each its own share of the items."""

_CREATE = "CREATE TABLE bare (token text PRIMARY KEY, body bytea NOT NULL, leased_until timestamptz)"
_INSERT = "INSERT INTO bare (token, body) SELECT unnest($1::text[]), unnest($2::bytea[])"
_LEASE = """
UPDATE bare SET leased_until = now() + interval '1 minute' WHERE token IN (
    SELECT token FROM bare WHERE leased_until IS NULL LIMIT $1 FOR UPDATE SKIP LOCKED
) RETURNING token, body
"""
_DELETE = "DELETE FROM bare WHERE token = ANY ($1::text[])"

Round = Callable[[int, int], Awaitable[None]]
"""Enqueue, lease and acknowledge one batch: number of the batch, items in it."""


async def measure_queues(server: BenchmarkServer, *, is_quick: bool) -> Table:
    """Measure both tiers and both bare loops at several batch sizes."""
    table = Table(
        name="queues",
        title="Distributed queue: items a second through enqueue, lease and acknowledge",
        columns=("batch", "redis", "bare_redis", "redis_share", "postgres", "bare_postgres", "postgres_share"),
        note=f"{CALLERS} callers in one process, {TENANTS} tenants, {len(BODY)} bytes an item; a bare loop keeps no"
        " lanes, no order, no caps and no dead letters",
    )
    async with _redis() as url, _postgres(server) as dsn:
        for batch in BATCHES:
            items = min(20_000, 2_000 * batch) // (4 if is_quick else 1)
            rates = []
            for kind in (_redis_tier, _bare_redis, _postgres_tier, _bare_postgres):
                address = url if "redis" in kind.__name__ else dsn
                async with kind(address) as carry_out:
                    rates.append(await _rate(carry_out, items, batch))
            tier, bare, cold, bare_cold = rates
            table.add(batch, tier, bare, tier / bare, cold, bare_cold, cold / bare_cold)
    return table


async def _rate(carry_out: Round, items: int, batch: int) -> float:
    rounds = iter(range(items // batch))

    async def call() -> None:
        for number in rounds:
            await carry_out(number, batch)

    began = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return items / (time.perf_counter() - began)


def _of_tier(queue: DistributedQueue, name: str) -> Round:
    async def carry_out(number: int, batch: int) -> None:
        items = [
            QueueItem(token=f"{number}/{index}", queue=name, tenant=f"tenant {index % TENANTS}", body=BODY)
            for index in range(batch)
        ]
        await queue.enqueue(items)
        leases = await queue.lease([name], max_items=batch, visibility_ms=VISIBILITY_MS)
        await queue.acknowledge(leases)

    return carry_out


@asynccontextmanager
async def _redis_tier(url: str) -> AsyncIterator[Round]:
    queue = RedisQueue(RedisSettings(url=url, command_timeout_ms=10_000))
    await queue.open()
    yield _of_tier(queue, f"bench {time.monotonic_ns()}")
    await queue.close()


@asynccontextmanager
async def _postgres_tier(dsn: str) -> AsyncIterator[Round]:
    queue = PostgresQueue(ConnectionSettings(dsn=dsn, pool_size=CALLERS))
    await queue.open()
    yield _of_tier(queue, f"bench {time.monotonic_ns()}")
    await queue.close()


@asynccontextmanager
async def _bare_redis(url: str) -> AsyncIterator[Round]:
    client = redis_client.Redis.from_url(url)

    async def carry_out(_number: int, batch: int) -> None:
        await client.lpush("bare", *([BODY] * batch))
        async with client.pipeline(transaction=False) as pipeline:
            for _ in range(batch):
                pipeline.lmove("bare", "bare leased", "RIGHT", "LEFT")
            await pipeline.execute()
        await client.rpop("bare leased", batch)

    yield carry_out
    await client.aclose()


@asynccontextmanager
async def _bare_postgres(dsn: str) -> AsyncIterator[Round]:
    pool = await asyncpg.create_pool(dsn, min_size=CALLERS, max_size=CALLERS)
    await pool.execute("DROP TABLE IF EXISTS bare")
    await pool.execute(_CREATE)

    async def carry_out(number: int, batch: int) -> None:
        await pool.execute(_INSERT, [f"{number}/{index}" for index in range(batch)], [BODY] * batch)
        rows = await pool.fetch(_LEASE, batch)
        await pool.execute(_DELETE, [row["token"] for row in rows])

    yield carry_out
    await pool.close()


@asynccontextmanager
async def _redis() -> AsyncIterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="ductor-bench-redis-"))
    server = RedisServer(directory)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(directory)


@asynccontextmanager
async def _postgres(server: BenchmarkServer) -> AsyncIterator[str]:
    dsn = await server.fresh_database(f"queues_{time.monotonic_ns()}")
    await migrate(dsn)
    await server.checkpoint()
    yield dsn
