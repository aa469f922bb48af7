"""Hosts that are killed while runs continue each other lose no signal at a seam, and hear none twice or too early."""

import asyncio
import random
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.chaos.processes import HostProcess

DEFINITION = """
ductor: 1
name: listener
context: {heard: []}
repeat: {until: "'stop' in context.heard", max: 100000}
output: ${context.heard}
steps:
  - {ref: hear, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}, next: work}
  - {ref: work, type: task, task: blocking, input: {n: 1}}
"""
RUNS = 4
WORDS = 40
KILLS = 6
SEED = 20_261_130


async def say(client: Client, run_id: str, chance: random.Random) -> None:
    """Send all words in order, each up to twice under one id."""
    for number in range(WORDS):
        for _ in range(chance.randint(1, 2)):
            await client.signal(run_id, "word", f"w{number}", request_id=f"word-{number}")
        await asyncio.sleep(chance.uniform(0, 0.15))


@pytest.mark.timeout(180)
async def test_no_signal_is_lost_or_doubled_where_hosts_are_killed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(DEFINITION):
            await client.publish(compiled)
        host = HostProcess(server.dsn(), tmp_path / "ledger")
        await host.start()
        runs = [(await client.start("listener", key=f"k-{number}")).run_id for number in range(RUNS)]
        saying = asyncio.gather(*(say(client, run_id, chance) for run_id in runs))
        for _ in range(KILLS):
            await asyncio.sleep(chance.uniform(0.3, 1.0))
            await host.kill()
            await host.start()
        await saying
        for number, run_id in enumerate(runs):
            await client.signal(run_id, "word", "stop")
            outcome = await client.outcome(run_id, timeout_ms=60_000)
            assert outcome.output == [*(f"w{word}" for word in range(WORDS)), "stop"]
            chain = await client.chain(run_id)
            assert [head.status for head in chain] == ["continued"] * WORDS + ["completed"]
            assert (await client.start("listener", key=f"k-{number}")).run_id == outcome.run_id
        await host.kill()
