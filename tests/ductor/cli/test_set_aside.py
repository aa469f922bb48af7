"""Runs that hosts leave alone: listed, explained, and released by commands."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

from ductor.journal.postgres import PostgresStore
from tests.ductor.cli.processes import Call, HostProcess

FLOW = """
ductor: 1
name: greeting
steps: [{ref: a, type: transform, value: 1}]
"""


async def set_aside(dsn: str, run_id: str) -> None:
    async with PostgresStore(dsn) as store:
        assert await store.set_run_aside(run_id, "it kills its coordinator", "host-a")


def test_a_run_that_was_set_aside_is_shown_and_goes_on_when_released(
    call: Call, host: Callable[..., HostProcess], environment: dict[str, str], folder: Path
) -> None:
    (folder / "greeting.yaml").write_text(FLOW)
    call("db", "migrate")
    assert call("publish", "greeting.yaml").returncode == 0
    run_id = call("start", "greeting").stdout.strip()
    assert json.loads(call("runs", "--set-aside", "-o", "json").stdout) == []
    assert call("release", run_id).returncode == 5
    asyncio.run(set_aside(environment["DUCTOR_DATABASE"], run_id))
    host().health()
    listed = call("runs", "--set-aside")
    assert run_id[:8] in listed.stdout
    (mark,) = json.loads(call("runs", "--set-aside", "-o", "json").stdout)
    assert (mark["run_id"], mark["reason"]) == (run_id, "it kills its coordinator")
    assert "it kills its coordinator" in call("explain", run_id).stdout
    assert json.loads(call("show", run_id, "-o", "json").stdout)["status"] == "pending"
    released = call("release", run_id)
    assert (released.returncode, released.stdout.strip()) == (0, "hosts take it up again")
    assert call("watch", run_id, "--timeout", "30s").returncode == 0


def test_an_unknown_run_is_not_found(call: Call):
    call("db", "migrate")
    assert call("release", "00000000-0000-7000-8000-000000000000").returncode == 3
