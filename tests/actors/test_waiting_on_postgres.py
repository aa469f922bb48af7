"""Bus, triggers and digests of hosts on PostgreSQL, in real time: two hosts with a store each."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from ductor.actors.client import Client
from ductor.actors.host import EngineHost, HostOptions
from ductor.definitions.values import JsonValue
from ductor.journal.clock import SystemClock
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import RunFilter
from tests.actors.hosting import hosted
from tests.postgres_fixtures import Database

OUTCOME_MS = 20_000
OPTIONS = HostOptions(sweep_ms=200, heartbeat_ms=200)

TEXT = """
input: {type: object}
triggers:
  - {event: ordered, input: {does: end, n: "${event.payload.n}"}}
  - {cron: "0 0 1 1 *", input: {does: end, n: 0}}
steps:
  - ref: choose
    type: transform
    value: "${trigger.does}"
    next:
      choice:
        - {when: output == "hear", to: hear}
        - {when: output == "gather", to: gather}
        - {to: end}
  - {ref: hear, type: wait, event: paid, match: event.payload.n == trigger.n, lookback: 1h}
  - {ref: gather, type: digest, key: all, item: "${trigger.n}", window: {duration: 1h, count: 20}}
  - {ref: end, type: transform, value: "${trigger.n}"}
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


async def start(host: EngineHost, does: str, n: int) -> str:
    return (await host.start("subject", {"does": does, "n": n})).run_id


async def output(host: EngineHost, run_id: str) -> JsonValue:
    """As somebody sees it who asks the database, whichever host carries the run out."""
    client = Client(host.store, clock=host.clock, ids=host.ids)
    return (await client.outcome(run_id, timeout_ms=OUTCOME_MS)).output


async def test_events_and_waits_of_two_hosts_meet_in_any_order(hosts: tuple[EngineHost, EngineHost]):
    first, second = hosts
    early = [await start(first, "hear", n) for n in range(10)]
    published = await asyncio.gather(*(second.publish_event("paid", {"n": n}, event_id=f"e-{n}") for n in range(20)))
    assert {receipt.verdict for receipt in published} == {"accepted"}
    both = await asyncio.gather(*(start(first, "hear", n) for n in range(10, 20)))
    for n, run_id in enumerate([*early, *both]):
        assert await output(first, run_id) == {"hear": {"n": n}}


async def test_of_many_waits_one_is_woken(hosts: tuple[EngineHost, EngineHost]):
    first, second = hosts
    runs = await asyncio.gather(*(start(first, "hear", n) for n in range(200)))
    await second.publish_event("paid", {"n": 117})
    assert await output(first, runs[117]) == {"hear": {"n": 117}}
    ended = await first.runs(RunFilter(statuses=("completed",), limit=10))
    assert [run.run_id for run in ended] == [runs[117]]
    assert [len(await first.history(run_id)) for run_id in (runs[0], runs[116], runs[118])] == [1, 1, 1]


async def test_an_event_starts_one_run_whoever_publishes_and_sweeps(hosts: tuple[EngineHost, EngineHost]):
    await asyncio.gather(*(host.publish_event("ordered", {"n": 5}, event_id="o-1") for host in hosts for _ in range(5)))
    (run,) = await hosts[0].runs(RunFilter(limit=10))
    assert await output(hosts[1], run.run_id) == {"end": 5}


async def test_a_schedule_that_is_due_starts_one_run_on_two_hosts(hosts: tuple[EngineHost, EngineHost]):
    first, _ = hosts
    (known,) = await first.store.due_schedules(2**60, 10)
    assert known.next_at_us is not None
    due = msgspec.structs.replace(known, next_at_us=first.clock.now_us() - 1_000_000)
    triggers = [*await first.store.event_triggers("default", "ordered"), due]
    await first.store.replace_triggers("default", "subject", ())
    await first.store.replace_triggers("default", "subject", triggers)
    async with asyncio.timeout(OUTCOME_MS / 1_000):
        while not (runs := await first.runs(RunFilter(limit=10))):
            await asyncio.gather(*(host.bus.scan() for host in hosts))
    assert [run.key for run in runs] == [f"schedule/1/{due.next_at_us}"]
    assert await output(first, runs[0].run_id) == {"end": 0}
    assert [each.next_at_us for each in await first.store.due_schedules(2**60, 10)] == [known.next_at_us]


async def test_runs_of_two_hosts_gather_in_one_window(hosts: tuple[EngineHost, EngineHost]):
    runs = await asyncio.gather(*(start(hosts[n % 2], "gather", n) for n in range(40)))
    outputs = [await output(hosts[0], run_id) for run_id in runs]
    leaders = {run_id: each["gather"] for run_id, each in zip(runs, outputs, strict=True) if "gather" in each}  # type: ignore[operator,index,call-overload]
    assert len(leaders) == 2
    gathered = [leader["items"] for leader in leaders.values()]  # type: ignore[index,call-overload]
    assert [len(items) for items in gathered] == [20, 20]  # type: ignore[arg-type]
    assert sorted(n for items in gathered for n in items) == list(range(40))  # type: ignore[union-attr,type-var]
    merged = [each["merged_into"] for each in outputs if "merged_into" in each]  # type: ignore[operator,index,call-overload]
    assert len(merged) == 38
    assert set(merged) <= set(leaders)
