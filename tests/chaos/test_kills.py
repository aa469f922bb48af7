"""kill -9 of the host and of PostgreSQL while runs go on: nothing is lost, nothing is doubled.

The oracle is outside of the engine: the starts that were acknowledged to this process, and a ledger that the handlers
wrote. Guarantees 1, 3, 5, 7 and 8 of the architecture.
"""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.chaos.oracle import DEFINITION, check_journals, expect_all_completed, start_all
from tests.chaos.processes import HostProcess

RUNS = 150
HOST_KILLS = 6
SERVER_KILLS = 2
SETTLE_S = 60.0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1])
async def test_nothing_is_lost_or_doubled_when_host_and_server_are_killed(
    server: EmbeddedPostgres, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    ledger = tmp_path / "ledger"
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        (compiled,) = compile_text(DEFINITION)
        await client.publish(compiled)
        host = HostProcess(server.dsn(), ledger)
        await host.start()
        starting = asyncio.create_task(start_all(client, RUNS))
        kills = ["host"] * HOST_KILLS + ["server"] * SERVER_KILLS
        chance.shuffle(kills)
        for victim in kills:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            if victim == "host":
                await host.kill()
                await host.start()
            else:
                os.kill(server.pid, signal.SIGKILL)
        accepted = await starting
        try:
            async with asyncio.timeout(SETTLE_S):
                await expect_all_completed(client, accepted)
        finally:
            await host.kill()
        assert len(accepted) == RUNS
        await check_journals(store, accepted, ledger, most=1 + HOST_KILLS)
