"""The processes of a cluster: PostgreSQL, Redis, and what reaches them."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.clustering.members import Member
from tests.redis_server import RedisServer


@asynccontextmanager
async def servers(
    folder: Path,
    definitions: str,
    *,
    postgres: Path | None = None,
    options: Mapping[str, str | int | bool] | None = None,
) -> AsyncIterator[tuple[EmbeddedPostgres, RedisServer]]:
    """PostgreSQL, durable, with the definitions published, and Redis. PostgreSQL comes back whenever it is gone.

    Args:
        folder: keeps their files.
        definitions: YAML.
        postgres: where PostgreSQL keeps its data, if not in `folder`.
        options: settings of PostgreSQL.
    """
    redis = RedisServer(folder)
    data = postgres or folder / "postgres"
    async with EmbeddedPostgres(data, stop_on_parent_death=True, options=options) as server:
        await migrate(server.dsn())
        await _publish(server.dsn(), definitions)
        redis.start()
        try:
            yield server, redis
        finally:
            redis.stop()


@asynccontextmanager
async def running(members: Sequence[Member]) -> AsyncIterator[None]:
    """These processes, until they are stopped in order."""
    try:
        await asyncio.gather(*(one.start() for one in members))
        yield
    finally:
        await asyncio.gather(*(one.stop() for one in members))


async def _publish(dsn: str, definitions: str) -> None:
    async with PostgresStore(dsn) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(definitions):
            await client.publish(compiled)
