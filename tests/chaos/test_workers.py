"""kill -9 of workers, of Redis and of the host while workers carry out runs: nothing is lost, nothing is doubled.

The oracle is outside of the engine: the starts that were acknowledged to this process, and a ledger that the handlers
wrote.
"""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.chaos.oracle import DEFINITION, check_journals, expect_all_completed, start_all
from tests.chaos.processes import ProgramProcess
from tests.redis_server import RedisServer, redis_server_of_its_own

RUNS = 100
WORKER_KILLS = 5
REDIS_KILLS = 2
REDIS_FREEZES = 1
HOST_KILLS = 1
SETTLE_S = 90.0
MODULE = "tests.chaos.remote_program"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    """A server that forgets everything when it is killed."""
    with redis_server_of_its_own() as server:
        yield server


class Cluster:
    """A host, two workers and Redis."""

    def __init__(self, dsn: str, redis: RedisServer, ledger: Path, chance: random.Random) -> None:
        self.redis, self._chance = redis, chance
        self.host = ProgramProcess(MODULE, "host", dsn, redis.url, str(ledger))
        self.workers = [ProgramProcess(MODULE, "worker", dsn, redis.url, str(ledger)) for _ in range(2)]

    async def start(self) -> None:
        """Start all of them."""
        await asyncio.gather(*(one.start() for one in (self.host, *self.workers)))

    async def stop(self) -> None:
        """Kill all of them."""
        await asyncio.gather(*(one.kill() for one in (self.host, *self.workers)))

    async def strike(self, victim: str) -> None:
        """Let one of them fail, and have it come back."""
        if victim == "worker":
            worker = self._chance.choice(self.workers)
            await worker.kill()
            await worker.start()
        elif victim == "host":
            await self.host.kill()
            await self.host.start()
        elif victim == "redis":
            self.redis.kill()
            await asyncio.sleep(self._chance.uniform(0.1, 1.5))
            await asyncio.to_thread(self.redis.start)
        else:
            self.redis.freeze()
            await asyncio.sleep(self._chance.uniform(0.5, 2))
            self.redis.thaw()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1])
async def test_nothing_is_lost_or_doubled_when_workers_and_redis_are_killed(
    server: EmbeddedPostgres, redis: RedisServer, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    ledger = tmp_path / "ledger"
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        (compiled,) = compile_text(DEFINITION)
        await client.publish(compiled)
        cluster = Cluster(server.dsn(), redis, ledger, chance)
        await cluster.start()
        starting = asyncio.create_task(start_all(client, RUNS))
        strikes = ["worker"] * WORKER_KILLS + ["redis"] * REDIS_KILLS
        strikes += ["frozen redis"] * REDIS_FREEZES + ["host"] * HOST_KILLS
        chance.shuffle(strikes)
        for victim in strikes:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            await cluster.strike(victim)
        accepted = await starting
        try:
            async with asyncio.timeout(SETTLE_S):
                await expect_all_completed(client, accepted)
        finally:
            await cluster.stop()
        assert len(accepted) == RUNS
        await check_journals(store, accepted, ledger, most=1 + len(strikes))
