"""Runs while processes of the cluster are killed, and the proof that nothing was lost or doubled.

What is believed is outside of the engine: the starts that were acknowledged here, and the ledger of the workers.
"""

import asyncio
import itertools
import os
import random
import signal
from collections import Counter

import msgspec

from ductor.actors.client import Client
from ductor.actors.views import RunOutcome
from ductor.journal.clock import SystemClock
from ductor.journal.codec import decode_events
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import AttemptFinished
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from scripts.clustering.handlers import expected_output
from scripts.clustering.processes import Cluster

START_PAUSE_S = 0.02
SETTLE_S = 120.0
STRIKE_PAUSE_S = (0.5, 2.0)
VICTIMS = ("worker", "worker", "host", "host", "redis", "frozen redis", "postgres")


class ChaosReport(msgspec.Struct, kw_only=True):
    """What happened: runs, strikes by victim, executions of attempts beyond the first, and what is wrong."""

    runs: int
    strikes: dict[str, int]
    attempts: int
    repeated: int
    problems: list[str]


async def chaos(cluster: Cluster, seconds: float, seed: int) -> ChaosReport:
    """Start runs for so long, strike meanwhile, let everything settle, and look at what there is."""
    chance = random.Random(seed)  # noqa: S311 - nothing is a secret here
    async with PostgresStore(cluster.postgres.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        until_s = asyncio.get_running_loop().time() + seconds
        starting = asyncio.create_task(_start_runs(client, until_s))
        strikes = await _strike(cluster, chance, until_s)
        accepted = await starting
        problems: list[str] = []
        try:
            async with asyncio.timeout(SETTLE_S):
                for run_id, number in accepted.items():
                    outcome = await _patient_outcome(client, run_id)
                    if (outcome.status, outcome.output) != ("completed", expected_output(number)):
                        problems.append(f"run {run_id} of {number} is {outcome.status}: {outcome.output}")
        except TimeoutError:
            problems.append(f"some of {len(accepted)} runs have not ended {SETTLE_S:g} s after the last strike")
        executions = Counter(cluster.ledger.read_text(encoding="utf-8").splitlines())
        attempts = await _check_attempts(store, accepted, executions, problems)
    repeated = sum(count - 1 for count in executions.values())
    return ChaosReport(
        runs=len(accepted), strikes=dict(strikes), attempts=attempts, repeated=repeated, problems=problems
    )


async def _start_runs(client: Client, until_s: float) -> dict[str, int]:
    """Start runs, insisting on each under its key until it is acknowledged: run id to input."""
    accepted: dict[str, int] = {}
    loop = asyncio.get_running_loop()
    for number in itertools.count():
        while True:
            try:
                started = await client.start("parcel", {"n": number}, key=f"parcel-{number}")
                break
            except StoreUnavailableError:
                await asyncio.sleep(0.1)
        accepted[started.run_id] = number
        if loop.time() > until_s:
            return accepted
        await asyncio.sleep(START_PAUSE_S)
    raise AssertionError("numbers do not end")


async def _strike(cluster: Cluster, chance: random.Random, until_s: float) -> Counter[str]:
    strikes: Counter[str] = Counter()
    loop = asyncio.get_running_loop()
    while loop.time() < until_s:
        await asyncio.sleep(chance.uniform(*STRIKE_PAUSE_S))
        victim = chance.choice(VICTIMS)
        strikes[victim] += 1
        if victim in ("worker", "host"):
            member = chance.choice(cluster.workers if victim == "worker" else cluster.hosts)
            await member.kill()
            await member.start()
        elif victim == "redis":
            cluster.redis.kill()
            await asyncio.sleep(chance.uniform(0.1, 1.5))
            await asyncio.to_thread(cluster.redis.start)
        elif victim == "frozen redis":
            cluster.redis.freeze()
            await asyncio.sleep(chance.uniform(0.5, 2.0))
            cluster.redis.thaw()
        else:
            os.kill(cluster.postgres.pid, signal.SIGKILL)
    return strikes


async def _patient_outcome(client: Client, run_id: str) -> RunOutcome:
    """The outcome, through the database's absence."""
    while True:
        try:
            return await client.outcome(run_id)
        except StoreUnavailableError:
            await asyncio.sleep(0.1)


async def _check_attempts(
    store: PostgresStore, accepted: dict[str, int], executions: Counter[str], problems: list[str]
) -> int:
    """Every attempt of the journals is in the ledger, and finished once. How many there are."""
    attempts = 0
    for run_id in accepted:
        rows = await store.history(run_id)
        events = [event for row in rows for event in decode_events(row.events, run_id=run_id, version=row.version)]
        finished = [(event.node, event.generation) for event in events if isinstance(event, AttemptFinished)]
        attempts += len(finished)
        if len(set(finished)) != len(finished):
            problems.append(f"run {run_id}: an attempt finished twice: {finished}")
        missing = [one for one in finished if not executions[f"{run_id}/{one[0]}/{one[1]}"]]
        if missing:
            problems.append(f"run {run_id}: attempts that nobody executed: {missing}")
    return attempts
