"""The processes of a cluster: PostgreSQL, Redis, hosts and workers."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore, migrate
from tests.redis_server import RedisServer

COMMAND = (sys.executable, "-c", "from ductor.cli.main import main; main()")
COMMON_OPTIONS = ("--health", "3600s", "--drain", "10s")
STOP_TIMEOUT_S = 45.0


class Member:
    """A host or a worker: started, killed, frozen, started again, stopped in order. What it logs goes to a file."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Args: `arguments` of `ductor`; `environment` is what is added to that of this process."""
        self.name, self._arguments, self._environment, self._log = name, arguments, environment, log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and return when it has come up; again while what it needs is away, as a supervisor would."""
        while True:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *COMMAND,
                    *self._arguments,
                    *COMMON_OPTIONS,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    env={**os.environ, **self._environment},
                )
            assert self._process.stdout is not None
            if await self._process.stdout.readline():
                return
            await self._process.wait()

    async def kill(self) -> None:
        """kill -9."""
        process = self._running()
        if process.returncode is None:
            process.kill()
        await process.wait()

    def freeze(self) -> None:
        """Let it stand still, with everything that it has open."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, as if no time had passed."""
        self._running().send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        """Have it drain, and kill it if that takes too long."""
        if self._process is None or self._process.returncode is not None:
            return
        self.thaw()
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._process.communicate()
        except TimeoutError:
            await self.kill()

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, f"{self.name} was never started"
        return self._process


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
