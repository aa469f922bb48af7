"""What tests with kills carry out, and the oracle outside of the engine that judges what came of it.

The oracle is the starts that were acknowledged, and a ledger that the handlers wrote.
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from ductor.actors.client import Client
from ductor.actors.verification import verify_run
from ductor.journal.recorded import recorded_run
from ductor.journal.store import Store
from scripts.chaos_run.facts import attempt_problems, facts_of
from scripts.chaos_run.ledger import read_ledger
from scripts.chaos_run.load import insist

STEPS = ("one", "two", "three", "join", "four")
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
        started = await insist(partial(client.start, "chain", {"n": number}, key=f"run-{number}"))
        accepted[started.run_id] = number
        await asyncio.sleep(0.004)
    return accepted


async def expect_all_completed(client: Client, accepted: Mapping[str, int]) -> None:
    """Every run that was accepted completes with what follows from its input."""
    for run_id, number in accepted.items():
        outcome = await insist(partial(client.outcome, run_id))
        expected = (number + 1) * 2 + (number + 1) + 1
        assert (outcome.status, outcome.output) == ("completed", {"n": expected, "steps": 4})


async def check_journals(store: Store, run_ids: Iterable[str], ledger: Path, *, most: int) -> None:
    """The journals prove, fit together and fit the ledger: an attempt was carried out `most` times at most; again only
    where a process died while it held it."""
    noted = read_ledger(ledger)
    for run_id in run_ids:
        run = await recorded_run(store, run_id)
        assert verify_run(run).holds
        facts = facts_of(run)
        assert attempt_problems(facts, noted.executions, noted.effects) == []
        assert facts.settled == dict.fromkeys(((step, "succeeded") for step in STEPS), 1)
        assert {token: noted.executions[token] for token in facts.finished if noted.executions[token] > most} == {}
