"""Leases when hosts are killed with kill -9: the limit holds at every moment, the rest goes on, and nothing is left."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from ductor.actors.client import Client
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.codec import decode_events
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.events import RUN_LEASE, LeaseGranted, NodeSettled, RunEnded
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import FeedPosition
from tests.chaos.processes import HostProcess

STEP_LIMIT, RUN_LIMIT = 2, 3
DEFINITIONS = f"""
ductor: 1
name: step
steps:
  - {{ref: a, type: task, task: add, input: {{n: 1}}, lease: {{key: "step", limit: {STEP_LIMIT}}}, next: b}}
  - {{ref: b, type: task, task: add, input: {{n: 2}}, lease: {{key: "step", limit: {STEP_LIMIT}}}}}
---
ductor: 1
name: run
lease: {{key: "run", limit: {RUN_LIMIT}}}
steps: [{{ref: a, type: task, task: add, input: {{n: 1}}, next: b}}, {{ref: b, type: wait, duration: 20ms}}]
"""
RUNS_OF_EACH = 40
KILLS = 6


@pytest.mark.timeout(180)
async def test_no_place_is_lost_or_given_twice_when_hosts_are_killed(server: EmbeddedPostgres, tmp_path: Path) -> None:
    random = Random(7)
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(DEFINITIONS):
            await client.publish(compiled)
        hosts = [HostProcess(server.dsn(), tmp_path / f"ledger-{n}") for n in range(2)]
        runs = [(await client.start(name, {})).run_id for name in ("step", "run") for _ in range(RUNS_OF_EACH)]
        for cancelled in random.sample(runs, 8):
            await client.request(cancelled, "cancel")
        await hosts[0].start()
        for kill in range(KILLS):
            await hosts[(kill + 1) % 2].start()
            await asyncio.sleep(random.uniform(0, 0.2))
            await hosts[kill % 2].kill()
        await hosts[KILLS % 2].kill()
        await hosts[0].start()
        try:
            outcomes = Counter([(await client.outcome(run_id, timeout_ms=60_000)).status for run_id in runs])
        finally:
            await hosts[0].kill()
        assert set(outcomes) <= {"completed", "cancelled"}
        assert await store.leases() == []
        assert await most_held(store) == {"step": STEP_LIMIT, "run": RUN_LIMIT}


async def most_held(store: PostgresStore) -> dict[str, int]:
    """How many held each key at once, at most: by the journal, in the order of its commits."""
    definitions: dict[str, str] = {}
    holding: dict[str, set[tuple[str, str]]] = {"step": set(), "run": set()}
    most = dict.fromkeys(holding, 0)
    fences: list[int] = []
    position = FeedPosition()
    while page := await store.feed(position, 1_000):
        for entry in page:
            run_id = entry.transition.run_id
            if run_id not in definitions:
                head = await store.head(run_id)
                assert head is not None
                definitions[run_id] = head.definition
            held = holding[definitions[run_id]]
            for event in decode_events(entry.transition.events, run_id=run_id, version=entry.transition.version):
                if isinstance(event, LeaseGranted):
                    held.add((run_id, event.node))
                    fences.append(event.fence)
                elif isinstance(event, NodeSettled):
                    held.discard((run_id, event.node))
                elif isinstance(event, RunEnded):
                    held.discard((run_id, RUN_LEASE))
            most[definitions[run_id]] = max(most[definitions[run_id]], len(held))
        position = page[-1].position
    assert len(fences) == len(set(fences)), "a place was given twice"
    return most
