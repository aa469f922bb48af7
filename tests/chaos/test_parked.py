"""Every kind of parked step survives kill -9 of its host; what was sent while no host lived is found by the next."""

import asyncio
from pathlib import Path

import pytest

from ductor.actors.client import Client
from ductor.actors.views import RunOutcome
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.embedded import EmbeddedPostgres
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from tests.chaos.processes import HostProcess

DEFINITIONS = """
ductor: 1
name: signal
steps: [{ref: park, type: wait, signal: go}]
---
ductor: 1
name: timer
steps: [{ref: park, type: wait, duration: 3s}]
---
ductor: 1
name: timeout
steps: [{ref: park, type: wait, signal: never, timeout: 3s, next: {timeout: late}}, {ref: late, type: transform, value: late}]
---
ductor: 1
name: event
steps: [{ref: park, type: wait, event: paid, match: event.payload.id == trigger.id}]
---
ductor: 1
name: event_set
steps: [{ref: park, type: event_set, events: [{name: one}, {name: two}]}]
---
ductor: 1
name: approval
steps: [{ref: park, type: approval, approvers: [ann, bob], quorum: 2}]
---
ductor: 1
name: case
steps: [{ref: park, type: human_loop, title: Look at this}]
---
ductor: 1
name: interaction
steps: [{ref: park, type: interaction, ask: How many?, schema: {type: integer}}]
---
ductor: 1
name: digest
steps: [{ref: park, type: digest, key: all, item: "${trigger.id}", window: {duration: 3s}}]
---
ductor: 1
name: retry
steps: [{ref: park, type: task, task: flaky, input: {n: 2}, retry: {max_attempts: 2, initial: 3s, jitter: 0}}]
"""  # noqa: E501 - one line a step
NAMES = ("signal", "timer", "timeout", "event", "event_set", "approval", "case", "interaction", "digest", "retry")
PARKED_WITHIN_S = 20.0


async def all_parked(client: Client, runs: dict[str, str]) -> None:
    """Wait until every run waits for what it is about."""
    async with asyncio.timeout(PARKED_WITHIN_S):
        for run_id in runs.values():
            while (await client.view(run_id)).steps[0].status != "waiting":  # noqa: ASYNC110 - another process acts
                await asyncio.sleep(0.02)


@pytest.mark.timeout(120)
async def test_every_parked_state_survives_the_kill_of_its_host(server: EmbeddedPostgres, tmp_path: Path) -> None:
    async with PostgresStore(server.dsn()) as store:
        client = Client(store, clock=SystemClock(), ids=SystemIds())
        for compiled in compile_text(DEFINITIONS):
            await client.publish(compiled)
        host = HostProcess(server.dsn(), tmp_path / "ledger")
        await host.start()
        runs = {name: (await client.start(name, {"id": 7})).run_id for name in NAMES}
        await all_parked(client, runs)
        await client.vote(runs["approval"], "park", "approved", by="ann")
        await client.publish_event("one", 1)
        await host.kill()
        await client.signal(runs["signal"], "go", "sent while nobody lived")
        await client.vote(runs["approval"], "park", "approved", by="bob")
        await client.publish_event("two", 2)
        await client.publish_event("paid", {"id": 7})
        await client.publish_event("paid", {"id": 8})
        await client.work_case(runs["case"], "park", by="ann", status="resolved")
        await client.reply(runs["interaction"], "park", 3)
        await host.start()
        try:
            outcomes = {name: await client.outcome(run_id, timeout_ms=30_000) for name, run_id in runs.items()}
        finally:
            await host.kill()
    assert {name: outcome.status for name, outcome in outcomes.items()} == dict.fromkeys(NAMES, "completed")
    assert output(outcomes["signal"]) == "sent while nobody lived"
    assert output(outcomes["event"]) == {"id": 7}
    assert outcomes["timeout"].output == {"late": "late"}
    assert output(outcomes["digest"]) == {"items": [7]}
    assert output(outcomes["retry"]) == 4
    assert output(outcomes["interaction"]) == 3


def output(outcome: RunOutcome) -> object:
    """What the parked step gave."""
    assert isinstance(outcome.output, dict)
    return outcome.output["park"]
