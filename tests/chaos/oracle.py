"""What tests with kills carry out, and the oracle outside of the engine that judges what came of it.

The oracle is the starts that were acknowledged, and a ledger that the handlers wrote.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ductor.actors.client import Client
from ductor.actors.views import RunOutcome
from ductor.journal.codec import decode_events
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import AttemptDispatched, AttemptFinished, NodeSettled, RunEnded
from ductor.journal.records import Transition
from ductor.journal.replay import verify_chain
from ductor.journal.store import Store

DEFINITION = """
ductor: 1
name: chain
input: {type: object, required: [n]}
context: {steps: 0}
defaults: {task: {retry: {max_attempts: 5, initial: 20ms, factor: 1.5}}}
steps:
  - {ref: one, type: task, task: add, input: {n: "${trigger.n}"}, effects: {steps: "${context.steps + 1}"}, next: [two, three]}
  - {ref: two, type: task, task: flaky, input: {n: "${steps.one.output}"}, effects: {steps: "${context.steps + 1}"}, next: join}
  - {ref: three, type: task, task: blocking, input: {n: "${steps.one.output}"}, effects: {steps: "${context.steps + 1}"}, next: join}
  - {ref: join, type: transform, value: "${steps.two.output + steps.three.output.n}", next: four}
  - {ref: four, type: task, task: add, input: {n: "${steps.join.output}"}, effects: {steps: "${context.steps + 1}"}}
output: {n: "${steps.four.output}", steps: "${context.steps}"}
"""  # noqa: E501 - a table reads better in one line each


async def start_all(client: Client, count: int) -> dict[str, int]:
    """Start runs, insisting until each start is acknowledged under its key: run id to input."""
    accepted: dict[str, int] = {}
    for number in range(count):
        while True:
            try:
                started = await client.start("chain", {"n": number}, key=f"run-{number}")
            except StoreUnavailableError:
                await asyncio.sleep(0.05)
                continue
            accepted[started.run_id] = number
            break
        await asyncio.sleep(0.004)
    return accepted


async def expect_all_completed(client: Client, accepted: Mapping[str, int]) -> None:
    """Every run that was accepted completes with what follows from its input."""
    for run_id, number in accepted.items():
        outcome = await patient_outcome(client, run_id)
        expected = (number + 1) * 2 + (number + 1) + 1
        assert (outcome.status, outcome.output) == ("completed", {"n": expected, "steps": 4})


async def check_journals(store: Store, run_ids: Iterable[str], ledger: Path, *, most: int) -> None:
    """The journals fit together and fit the ledger: an attempt was carried out `most` times at most."""
    executions = Counter(ledger.read_text().splitlines())
    for run_id in run_ids:
        _check_journal(run_id, await store.history(run_id), executions, most)


async def patient_outcome(client: Client, run_id: str) -> RunOutcome:
    """The outcome, through the server's absence."""
    while True:
        try:
            return await client.outcome(run_id)
        except StoreUnavailableError:
            await asyncio.sleep(0.05)


def _check_journal(run_id: str, rows: Sequence[Transition], executions: Counter[str], most: int) -> None:
    """What the journal of one run says must fit together, and fit the ledger: an attempt was carried out `most` times
    at most."""
    assert [row.version for row in rows] == list(range(1, len(rows) + 1))
    verify_chain(run_id, rows)
    events = [event for row in rows for event in decode_events(row.events, run_id=run_id, version=row.version)]
    dispatched = [(event.node, event.generation) for event in events if isinstance(event, AttemptDispatched)]
    finished = [(event.node, event.generation) for event in events if isinstance(event, AttemptFinished)]
    settled = [event.node for event in events if isinstance(event, NodeSettled)]
    assert len(set(dispatched)) == len(dispatched)
    assert len(set(finished)) == len(finished)
    assert sorted(settled) == ["four", "join", "one", "three", "two"]
    assert set(finished) == set(dispatched)
    assert isinstance(events[-1], RunEnded)
    for node, generation in finished:
        # at least once; again only where a process died while it held the attempt
        assert 1 <= executions[f"{run_id} {node} {generation}"] <= most
