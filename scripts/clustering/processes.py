"""The processes of the cluster: PostgreSQL, Redis, hosts and workers."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from scripts.clustering.handlers import DEFINITION, LEDGER_VARIABLE
from tests.redis_server import RedisServer

COMMAND = (sys.executable, "-c", "from ductor.cli.main import main; main()")
STOP_TIMEOUT_S = 45.0


class Member:
    """A host or a worker: started, killed, started again, stopped in order. What it logs goes to a file."""

    def __init__(self, name: str, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.name, self._arguments, self._environment, self._log = name, arguments, environment, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and return when it has come up; again while what it needs is away, as a supervisor would."""
        while True:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *COMMAND,
                    *self._arguments,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env=self._environment,
                )
            assert self._process.stdout is not None
            if await self._process.stdout.readline():
                return
            await self._process.wait()

    async def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """Have it drain, and kill it if that takes too long."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.communicate()
        except TimeoutError:
            await self.kill()


class Cluster:
    """See the module's docstring.

    Attributes:
        ledger: the file to which workers write what they execute.
    """

    def __init__(self, postgres: EmbeddedPostgres, redis: RedisServer, folder: Path, hosts: int, workers: int) -> None:
        self.postgres, self.redis, self.ledger = postgres, redis, folder / "ledger"
        self.environment = {"DUCTOR_DATABASE": postgres.dsn(), "DUCTOR_REDIS_URL": redis.url}
        everything = {**os.environ, **self.environment, LEDGER_VARIABLE: str(self.ledger)}
        common = ["--health", "3600s", "--drain", "10s"]
        work = ["worker", "--tasks", "scripts.clustering.handlers", "--visibility", "5s", *common]

        def member(name: str, arguments: list[str]) -> Member:
            return Member(name, arguments, everything, folder / f"{name}.log")

        self.hosts = [member(f"host-{number}", ["host", *common]) for number in range(1, hosts + 1)]
        self.workers = [member(f"worker-{number}", work) for number in range(1, workers + 1)]

    @property
    def members(self) -> list[Member]:
        """Hosts and workers."""
        return [*self.hosts, *self.workers]


@asynccontextmanager
async def cluster(folder: Path, hosts: int, workers: int) -> AsyncIterator[Cluster]:
    """A running cluster that keeps its files in `folder`."""
    redis = RedisServer(folder)
    async with EmbeddedPostgres(folder / "postgres", stop_on_parent_death=True) as postgres:
        await migrate(postgres.dsn())
        await _publish(postgres.dsn())
        redis.start()
        made = Cluster(postgres, redis, folder, hosts, workers)
        try:
            await asyncio.gather(*(one.start() for one in made.members))
            yield made
        finally:
            await asyncio.gather(*(one.stop() for one in made.members))
            redis.stop()


async def _publish(dsn: str) -> None:
    async with PostgresStore(dsn) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(DEFINITION):
            await client.publish(compiled)
