"""Chains on PostgreSQL, in real time, carried out by two hosts with a store each."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ductor.actors.client import Client
from ductor.actors.host import EngineHost, HostOptions
from ductor.journal.clock import SystemClock
from ductor.journal.events import RunContinued
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import Control, RunFilter
from tests.actors.hosting import hosted
from tests.postgres_fixtures import Database

OUTCOME_MS = 60_000
OPTIONS = HostOptions(sweep_ms=100, heartbeat_ms=200)
WORDS = 60

TEXT = """
input: {type: object, properties: {rounds: {type: integer, default: 0}}}
context: {heard: [], n: 0}
repeat: {until: "'stop' in context.heard || (trigger.rounds > 0 && context.n >= trigger.rounds)", max: 20000}
output: {heard: "${context.heard}", n: "${context.n}"}
steps:
  - {ref: which, type: conditional, when: trigger.rounds > 0, next: {"true": count, "false": hear}}
  - {ref: count, type: transform, value: "${context.n + 1}", effects: {n: "${output}"}}
  - {ref: hear, type: wait, signal: word, effects: {heard: "${context.heard + [output]}"}}
"""


@pytest.fixture
async def hosts(database: Database) -> AsyncIterator[tuple[EngineHost, EngineHost]]:
    """Two hosts on one database."""
    async with PostgresStore(database.dsn) as first_store, PostgresStore(database.dsn) as second_store:
        first, second = [
            await hosted(TEXT, store=store, clock=SystemClock(), ids=SystemIds(), options=OPTIONS)
            for store in (first_store, second_store)
        ]
        yield first, second
        await second.stop_host()
        await first.stop_host()


async def test_a_chain_of_a_hundred_runs(hosts: tuple[EngineHost, EngineHost]):
    first, second = hosts
    run_id = (await first.start("subject", {"rounds": 100}, key="k")).run_id
    outcome = await second.outcome(run_id, timeout_ms=OUTCOME_MS)
    assert outcome.output == {"heard": [], "n": 100}
    assert [head.iteration for head in await second.chain(run_id)] == list(range(100))
    assert [head.run_id for head in await second.runs(RunFilter())] == [outcome.run_id]
    again = await second.start("subject", {"rounds": 100}, key="k")
    assert (again.run_id, again.is_new) == (outcome.run_id, False)


async def test_signals_from_two_hosts_are_heard_once_each_across_the_seams(hosts: tuple[EngineHost, EngineHost]):
    """Each word is sent twice under one id, by both hosts and to different runs of the chain, while it continues."""
    first, second = hosts
    run_id = (await first.start("subject")).run_id
    client = Client(second.store, clock=SystemClock(), ids=SystemIds())

    async def say(number: int) -> None:
        receipts = await asyncio.gather(
            first.signal(run_id, "word", f"w{number}", request_id=f"r-{number}"),
            client.signal(await second.latest(run_id), "word", f"w{number}", request_id=f"r-{number}"),
        )
        assert sorted(receipt.verdict for receipt in receipts)[1] in {"accepted", "duplicate"}

    for start in range(0, WORDS, 6):
        await asyncio.gather(*(say(number) for number in range(start, start + 6)))
    await second.signal(run_id, "word", "stop")
    outcome = await first.outcome(run_id, timeout_ms=OUTCOME_MS)
    assert isinstance(outcome.output, dict)
    heard = outcome.output["heard"]
    assert isinstance(heard, list)
    assert sorted(str(word) for word in heard if word != "stop") == sorted(f"w{number}" for number in range(WORDS))


async def test_a_request_that_both_hosts_make_meets_one_successor(hosts: tuple[EngineHost, EngineHost]):
    first, second = hosts
    run_ids = [(await first.start("subject")).run_id for _ in range(10)]
    for run_id in run_ids:
        verdicts = await asyncio.gather(
            *(host.request(run_id, "continue_as_new", request_id="once") for host in (first, second) for _ in range(3))
        )
        assert sorted(receipt.verdict for receipt in verdicts) == ["accepted", *["duplicate"] * 5]
    for run_id in run_ids:
        await first.signal(run_id, "word", "stop")
        outcome = await second.outcome(run_id, timeout_ms=OUTCOME_MS)
        rows = await second.chain_history(run_id)
        assert sum(isinstance(event, RunContinued) for row in rows for event in row.events) == 1
        assert [head.run_id for head in await second.chain(run_id)] == [run_id, outcome.run_id]


async def test_two_hosts_that_tick_one_run_at_once_start_one_successor(hosts: tuple[EngineHost, EngineHost]):
    """Both have the run in hand, and are told of the same control at the same moment."""
    first, second = hosts
    run_ids = [(await first.start("subject")).run_id for _ in range(20)]
    for run_id in run_ids:
        second.engine.wake(run_id)
    await asyncio.gather(*(second.view(run_id) for run_id in run_ids))
    for run_id in run_ids:
        await first.store.request_control(_control(run_id))
        first.engine.wake(run_id, reissues=False)
        second.engine.wake(run_id, reissues=False)
    await asyncio.gather(*(second.signal(run_id, "word", "stop") for run_id in run_ids))
    await asyncio.gather(*(first.outcome(run_id, timeout_ms=OUTCOME_MS) for run_id in run_ids))
    for run_id in run_ids:
        assert len(await first.chain(run_id)) == 2


def _control(run_id: str) -> Control:
    return Control(run_id=run_id, request_id="once", kind="continue_as_new")
