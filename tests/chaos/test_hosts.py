"""Three hosts under load, with Redis and without: killed, frozen past their time, restarted one after another.

The oracle is outside of the engine: the starts that were acknowledged to this process, and a ledger that the handlers
wrote.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.actors.sweeper import HOST_ALIVE_MS
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.chaos.oracle import DEFINITION, check_journals, expect_all_completed
from tests.chaos.processes import ProgramProcess
from tests.redis_server import redis_server_of_its_own

RUNS = 150
KILLS = 4
FREEZES = 2
FROZEN_S = HOST_ALIVE_MS / 1_000 + 2
SETTLE_S = 60.0


@pytest.fixture(params=["redis", "postgres alone"])
def redis_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a Redis; empty where hosts do without."""
    if request.param != "redis":
        yield ""
        return
    with redis_server_of_its_own() as server:
        yield server.url


class Cluster:
    """Three hosts with handlers, and a client that hosts nothing."""

    def __init__(self, dsn: str, redis_url: str, ledger: Path, client: Client) -> None:
        self.client, self._ledger = client, ledger
        self.hosts = [
            ProgramProcess("tests.chaos.remote_program", "host_alone", dsn, redis_url, str(ledger)) for _ in range(3)
        ]

    async def start_runs(self, count: int) -> dict[str, int]:
        """Start runs at a steady pace: run id to input."""
        accepted: dict[str, int] = {}
        for number in range(count):
            started = await self.client.start("chain", {"n": number}, key=f"run-{number}")
            accepted[started.run_id] = number
            await asyncio.sleep(0.05)
        return accepted

    async def check(self, accepted: dict[str, int], *, most: int) -> None:
        """Every run completes, with the right result, and no attempt was carried out more than `most` times."""
        async with asyncio.timeout(SETTLE_S):
            await expect_all_completed(self.client, accepted)
        await check_journals(self.client.store, accepted, self._ledger, most=most)


@asynccontextmanager
async def cluster(server: EmbeddedPostgres, redis_url: str, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        (compiled,) = compile_text(DEFINITION)
        await client.publish(compiled)
        made = Cluster(server.dsn(), redis_url, tmp_path / "ledger", client)
        await asyncio.gather(*(host.start() for host in made.hosts))
        try:
            yield made
        finally:
            await asyncio.gather(*(host.kill() for host in made.hosts))


@pytest.mark.timeout(180)
async def test_nothing_is_lost_or_doubled_when_hosts_are_killed_and_frozen(
    server: EmbeddedPostgres, redis_url: str, tmp_path: Path
) -> None:
    chance = random.Random(6)
    async with cluster(server, redis_url, tmp_path) as made:
        starting = asyncio.create_task(made.start_runs(RUNS))
        strikes = ["kill"] * KILLS + ["freeze"] * FREEZES
        chance.shuffle(strikes)
        for strike in strikes:
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            victim = chance.choice(made.hosts)
            if strike == "kill":
                await victim.kill()
                await victim.start()
            else:
                victim.freeze()
                await asyncio.sleep(FROZEN_S)
                victim.thaw()
        await made.check(await starting, most=1 + KILLS + FREEZES)


@pytest.mark.timeout(180)
async def test_hosts_are_restarted_one_after_another_and_nothing_is_done_twice(
    server: EmbeddedPostgres, redis_url: str, tmp_path: Path
) -> None:
    async with cluster(server, redis_url, tmp_path) as made:
        starting = asyncio.create_task(made.start_runs(RUNS))
        for host in made.hosts:
            await asyncio.sleep(0.5)
            assert await host.stop() == 0
            await host.start()
        await made.check(await starting, most=1)
