"""Read models on the face: a host fills them, a client asks them, and the command line too."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

import ductor
from ductor.definitions.build import task, workflow
from ductor.journal.clock import SystemClock
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.projections.builtin import builtin_projections
from ductor.projections.projector import Projector
from tests.postgres_fixtures import Database

DEFINITION = workflow(
    "order",
    task("ship", "ship", input={"sku": "${trigger.sku}"}),
    search_attributes={"customer": "${trigger.customer}"},
)


@ductor.task("ship")
async def ship(sku: str) -> str:
    if sku == "none":
        raise ductor.NonRetryable("out of stock")
    return sku


@pytest.fixture
async def filled(database: Database) -> Database:
    """Three runs, one of them failed, and models that hold them."""
    async with ductor.Host(tasks=[ship], definitions=DEFINITION, database=database.dsn, projections=None) as host:
        for number, sku in enumerate(("a", "none", "b")):
            run = await host.start("order", {"sku": sku, "customer": f"c-{number}"}, key=f"o-{number}")
            with contextlib.suppress(ductor.RunFailedError):
                await run.result(timeout=30)
    async with PostgresStore(database.dsn) as store:
        projector = Projector(store, builtin_projections(), leader="test")
        await projector.catch_up()
        await projector.stop()
    return database


async def test_a_client_asks_what_hosts_have_filled(filled: Database):
    async with ductor.Client(filled.dsn) as client:
        page = await client.search_runs(ductor.RunSearch(text="stock", statuses=("failed",)))
        assert [run.key for run in page.runs] == ["o-1"]
        (steps,) = await client.step_statistics(definition="order")
        assert (steps.step, steps.succeeded, steps.failed, steps.attempts_failed) == ("ship", 2, 1, 1)
        assert steps.duration_ms_p50 is not None
        (usage,) = await client.usage()
        assert (usage.runs_started, usage.runs_completed, usage.runs_failed) == (3, 2, 1)
        flow = {(one.measure, one.target): one.count for one in await client.funnel("order") if one.step == "ship"}
        assert flow["ended", "failed"] == 1
        assert flow["settled", "succeeded"] == 2
        assert {one.measure for one in await client.health_report()} >= {"hosts", "projection", "overdue timers"}
        assert {one.name: one.status for one in await client.projections()} == dict.fromkeys(
            ("funnel", "runs", "steps", "usage"), "serving"
        )


async def test_another_tenant_sees_nothing_of_it(filled: Database):
    async with ductor.Client(filled.dsn, tenant="other") as client:
        assert (await client.search_runs(ductor.RunSearch())).runs == ()
        assert list(await client.step_statistics()) == []
        assert list(await client.usage()) == []
        assert list(await client.funnel("order")) == []


async def test_a_host_in_memory_has_no_read_models():
    store = MemoryStore(SystemClock())
    await store.open()
    async with ductor.Host(database=store) as host:
        with pytest.raises(ductor.ProjectionsUnavailableError, match="MemoryStore"):
            await host.search_runs(ductor.RunSearch())
    with pytest.raises(ductor.ProjectionsUnavailableError):
        await ductor.Host(database=store, projections=builtin_projections()).open()
    await store.close()


async def test_two_projections_of_one_name_are_refused(database: Database):
    with pytest.raises(ductor.InvalidProjectionError, match="two projections"):
        await ductor.Host(database=database.dsn, projections=builtin_projections()).open()


def command(dsn: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(Path(sys.executable).with_name("ductor")), *arguments],
        env={**os.environ, "DUCTOR_DATABASE": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_the_command_line_searches_and_looks_after_models(filled: Database):
    found = command(filled.dsn, "search", "stock", "--status", "failed", "--since", "1h", "-o", "json")
    assert [run["key"] for run in json.loads(found.stdout)] == ["o-1"], found.stderr
    dated = command(
        filled.dsn, "search", "stock", "--since", "2026-01-31", "--until", "2199-01-01T00:00:00Z", "-o", "json"
    )
    assert dated.stdout == found.stdout
    assert command(filled.dsn, "search", "--until", "2026-01-31", "-o", "json").stdout == "[]\n"
    between = command(filled.dsn, "search", "--since", "1h", "--until", "2h")
    assert (between.returncode, "it does not come after" in between.stderr) == (2, True)
    unknown = command(filled.dsn, "search", "--since", "yesterday")
    assert (unknown.returncode, "Write how long ago" in unknown.stderr) == (2, True)
    table = command(filled.dsn, "search", "--where", "customer=c-2", "--limit", "1")
    assert "customer=c-2" in table.stdout, table.stderr
    page = command(filled.dsn, "search", "--limit", "1")
    assert "--after" in page.stderr
    connection = await asyncpg.connect(filled.dsn)
    await connection.execute("UPDATE ductor_runs_1.run SET status = 'continued' WHERE key = 'o-2'")
    await connection.close()
    for options, keys in (
        ((), ["o-1", "o-0"]),
        (("--continued",), ["o-2", "o-1", "o-0"]),
        (("--status", "continued"), ["o-2"]),
    ):
        latest = command(filled.dsn, "search", "order", *options, "-o", "json")
        assert [run["key"] for run in json.loads(latest.stdout)] == keys, options
    models = command(filled.dsn, "projection", "list", "-o", "json")
    assert [one["name"] for one in json.loads(models.stdout)] == ["funnel", "runs", "steps", "usage"]
    assert "a rebuild begins" in command(filled.dsn, "projection", "rebuild", "runs").stderr
    assert "under way" in command(filled.dsn, "projection", "rebuild", "runs").stderr
    assert "does not stand still" in command(filled.dsn, "projection", "retry", "runs").stderr
    assert command(filled.dsn, "projection", "retry", "nothing").returncode == 3
    assert command(filled.dsn, "search", "--limit", "0").returncode == 2
    assert command(filled.dsn, "search", "--where", "customer").returncode == 2
