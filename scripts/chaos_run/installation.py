"""What is struck: PostgreSQL, Redis, and hosts and workers that reach PostgreSQL through a proxy each."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from ductor.journal.embedded import EmbeddedPostgres
from scripts.chaos_run.handlers import LEDGER_VARIABLE
from scripts.chaos_run.kinds import DEFINITIONS
from scripts.chaos_run.volume import Volume
from scripts.clustering.members import Member
from scripts.clustering.processes import running, servers
from tests.journal.postgres.proxies import CuttingProxy
from tests.redis_server import RedisServer

TASKS: Final = ("--tasks", "scripts.chaos_run.handlers")
HOST: Final = ("host", *TASKS, "--leave-queue", "remote", "--log-format", "json")
WORKER: Final = ("worker", *TASKS, "--queues", "remote", "--visibility", "5s", "--log-format", "json")
POSTGRES_OPTIONS: Final[Mapping[str, str | int | bool]] = {
    "max_connections": 300,
    "max_wal_size": "256MB",
    # a file system at once, where its default takes seconds for one file after another, each time it is killed
    "recovery_init_sync_method": "syncfs",
}


class Victim(msgspec.Struct, frozen=True):
    """A host or worker, and what stands between it and PostgreSQL."""

    member: Member
    proxy: CuttingProxy


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """All that is there.

    Attributes:
        client: what stands between the client and PostgreSQL.
        data: the folder in which PostgreSQL works.
        volume: the file system that it is on; None where it can't be filled up.
    """

    postgres: EmbeddedPostgres
    redis: RedisServer
    hosts: tuple[Victim, ...]
    workers: tuple[Victim, ...]
    client: CuttingProxy
    data: Path
    volume: Volume | None


@asynccontextmanager
async def installation(
    folder: Path, ledger: Path, volume: Volume | None, *, hosts: int, workers: int
) -> AsyncIterator[Installation]:
    """All of it, running; what it logs is in `folder`."""
    data = (folder if volume is None else volume.folder) / "postgres"
    async with AsyncExitStack() as stack:
        postgres, redis = await stack.enter_async_context(
            servers(folder, DEFINITIONS, postgres=data, options=POSTGRES_OPTIONS)
        )

        async def proxy() -> CuttingProxy:
            return await stack.enter_async_context(CuttingProxy(postgres.dsn()))

        async def victim(name: str, arguments: tuple[str, ...]) -> Victim:
            between = await proxy()
            environment = {
                "DUCTOR_DATABASE": between.dsn,
                "DUCTOR_REDIS_URL": redis.url,
                LEDGER_VARIABLE: str(ledger),
            }
            return Victim(Member(name, arguments, environment, folder / f"{name}.log"), between)

        made = Installation(
            postgres=postgres,
            redis=redis,
            hosts=tuple([await victim(f"host-{number + 1}", HOST) for number in range(hosts)]),
            workers=tuple([await victim(f"worker-{number + 1}", WORKER) for number in range(workers)]),
            client=await proxy(),
            data=data / "data",
            volume=volume,
        )
        async with running([one.member for one in (*made.hosts, *made.workers)]):
            yield made
