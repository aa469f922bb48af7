"""Fan-out on PostgreSQL, in real time: tasks of the run, child runs, large results, a new host in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ductor.actors.errors import NonRetryable
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.tasks import TaskRegistry, task
from ductor.definitions.compile import compile_text
from ductor.journal.clock import SystemClock
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import RunFilter
from tests.actors.test_fan_out import PLAIN, RAISING, RUNS, children_when
from tests.postgres_fixtures import Database

OUTCOME_MS = 30_000


@asynccontextmanager
async def on_postgres(database: Database, text: str, handler: Any) -> AsyncIterator[EngineHost]:
    async with PostgresStore(database.dsn) as store:
        options = HostOptions(sweep_ms=200, heartbeat_ms=200, drain_ms=200)
        host = EngineHost(store, TaskRegistry([handler]), clock=SystemClock(), ids=SystemIds(), options=options)
        for compiled in compile_text(text):
            await host.publish(compiled)
        async with host:
            yield host


@task("work")
async def echo(item: Any) -> Any:
    """Gives back what it gets; fails for negative numbers."""
    if isinstance(item, int) and item < 0:
        raise NonRetryable("less than nothing", type="Negative")
    return item


async def test_a_thousand_children_of_one_run(database: Database):
    async with on_postgres(database, PLAIN, echo) as host:
        run_id = (await host.start("subject", list(range(1_000)))).run_id
        outcome = await host.outcome(run_id, timeout_ms=OUTCOME_MS)
        assert outcome.output == {"result": list(range(1_000)), "error": {}}
        page = await host.children_of_step(run_id, "each", after=997)
        assert [(child.index, child.output) for child in page.children] == [(998, 998), (999, 999)]


async def test_a_hundred_child_runs(database: Database):
    async with on_postgres(database, RUNS, echo) as host:
        run_id = (await host.start("subject", [*range(99), -1])).run_id
        output: Any = (await host.outcome(run_id, timeout_ms=OUTCOME_MS)).output
        assert output["result"] == list(range(99))
        assert output["error"]["99"]["type"] == "Negative"
        heads = await host.store.heads(RunFilter(parent_run_ids=(run_id,), limit=200))
        assert len({head.parent_node for head in heads}) == len(heads) == 100


async def test_a_new_host_goes_on_where_the_other_was_and_does_only_what_is_left(database: Database):
    large = "x" * (MAX_INLINE_BYTES + 1)
    calls: list[int] = []
    is_held = asyncio.Event()
    let_go = asyncio.Event()

    @task("work")
    async def held(item: int) -> str:
        calls.append(item)
        if item == 2:
            is_held.set()
            await let_go.wait()
        return f"{item}{large}"

    async with on_postgres(database, PLAIN, held) as host:
        run_id = (await host.start("subject", [0, 1, 2])).run_id
        async with asyncio.timeout(OUTCOME_MS / 1_000):
            await is_held.wait()
        await children_when(host, run_id, succeeded=2)
    let_go.set()
    async with on_postgres(database, PLAIN, held) as host:
        outcome = await host.outcome(run_id, timeout_ms=OUTCOME_MS)
        assert outcome.output == {"result": [f"{item}{large}" for item in range(3)], "error": {}}
    assert sorted(calls) == [0, 1, 2, 2]


async def test_a_redrive_after_a_raised_failure(database: Database):
    calls: list[int] = []

    @task("work")
    async def once(item: int) -> int:
        calls.append(item)
        if item == 1 and calls.count(1) == 1:
            raise NonRetryable("not yet", type="NotYet")
        return item

    async with on_postgres(database, RAISING, once) as host:
        run_id = (await host.start("subject", [1])).run_id
        assert (await host.outcome(run_id, timeout_ms=OUTCOME_MS)).status == "failed"
        await host.request(run_id, "redrive")
        await children_when(host, run_id, succeeded=1)
        assert (await host.outcome(run_id, timeout_ms=OUTCOME_MS)).output == {"result": [1], "error": {}}
    assert calls == [1, 1]
