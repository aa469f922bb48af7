"""The real command, in processes of its own, on a real PostgreSQL: the embedded one of the folder it is called in."""

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ductor.cli.processes import COMMAND, Call, HostProcess
from tests.ductor.flows import ORDER

HANDLERS = """
import pathlib
import asyncio

import ductor


@ductor.task("inventory.reserve")
async def reserve(sku: str) -> dict[str, str]:
    return {"reservation_id": f"r-{sku}"}


@ductor.task("payments.charge")
async def charge(order_id: str, context: ductor.TaskContext) -> dict[str, str]:
    with pathlib.Path("charges").open("a") as charges:
        charges.write(context.idempotency_key + "\\n")
    if order_id == "o-slow":
        await asyncio.Event().wait()
    if order_id == "o-declined":
        raise ductor.NonRetryable("no money", type="Declined")
    return {"charge_id": f"c-{order_id}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.yaml").write_text(ORDER)
    (tmp_path / "shop_handlers.py").write_text(HANDLERS)
    return tmp_path


def test_from_migration_to_result(call: Call, host: Callable[..., HostProcess]):
    refused = call("runs")
    assert refused.returncode == 2
    assert "ductor db migrate" in refused.stderr
    migrated = call("db", "migrate", "-o", "json")
    assert migrated.returncode == 0
    assert json.loads(migrated.stdout)[0]["number"] == 1
    assert "up to date" in call("db", "migrate").stderr

    published = call("publish", "order.yaml", "-o", "json")
    assert [one["name"] for one in json.loads(published.stdout)] == ["order"]
    started = call("start", "order", "--input", '{"order_id": "o-1"}', "--key", "k-1")
    run_id = started.stdout.strip()
    assert started.returncode == 0
    assert "no host is alive" in started.stderr
    again = json.loads(call("start", "order", "--input", '{"order_id": "o-1"}', "--key", "k-1", "-o", "json").stdout)
    assert again == {"run_id": run_id, "is_new": False}
    assert "order_id" in call("start", "order").stderr
    assert call("start", "ordr").returncode == 3

    # a host without one of the handlers: the run gets as far as it can, and `show` says for what it waits
    poor = host("--tasks", "shop_handlers:reserve")
    while poor.health()["waiting_for_handler"] != {"payments.charge": 1}:
        pass
    shown = call("show", run_id)
    assert "`payments.charge`" in shown.stdout
    assert "start one with it" in shown.stdout
    assert json.loads(call("show", run_id, "-o", "json").stdout)["waits_for"].keys() == {"charge"}
    timed_out = call("watch", run_id, "--timeout", "300ms")
    assert timed_out.returncode == 4
    code, said = poor.stop(signal.SIGTERM)
    assert (code, "stopped" in said) == (0, True)
    assert "no host is alive" in call("show", run_id).stdout

    host("--tasks", "shop_handlers", "--definitions", ".").health()
    watched = call("watch", run_id, "--from-start", "--timeout", "30s", "-o", "jsonl")
    assert watched.returncode == 0
    rows = [json.loads(line) for line in watched.stdout.splitlines()]
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert rows[-1]["events"][-1]["type"] == "run_ended"
    assert "run_ended" in call("history", run_id).stdout
    assert "✔ charge" in call("graph", run_id).stdout
    assert "<svg" in call("graph", "order", "-o", "svg").stdout

    waited = call("start", "order", "--input", '{"order_id": "o-2"}', "--wait", "--timeout", "30s")
    assert (waited.returncode, json.loads(waited.stdout)) == (0, {"charge": "c-o-2"})
    failed = call("start", "order", "--input", '{"order_id": "o-declined"}', "--wait", "-o", "json")
    assert failed.returncode == 1
    assert failed.stderr[:1] == "{", failed.stderr
    assert json.loads(failed.stderr)["error"]["fields"]["type"] == "Declined"

    refused = call("cancel", run_id, "-o", "json")
    assert refused.returncode == 5
    assert json.loads(refused.stderr)["error"]["code"] == "control_refused"
    assert call("show", "01999999-0000-7000-8000-000000000000").returncode == 3
    heads = [json.loads(line) for line in call("runs", "--status", "failed", "-o", "jsonl").stdout.splitlines()]
    assert [head["error_type"] for head in heads] == ["Declined"]
    page = json.loads(call("runs", "--before", heads[0]["run_id"], "--limit", "1", "-o", "json").stdout)
    assert len(page) == 1
    assert call("runs", "-o", "json", "--tenant", "other").stdout == "[]\n"


def test_a_killed_host_is_followed_by_one_that_finishes(call: Call, folder: Path, host: Callable[..., HostProcess]):
    call("db", "migrate")
    first = host("--tasks", "shop_handlers", "--definitions", ".")
    first.health()
    run_id = call("start", "order", "--input", '{"order_id": "o-slow"}').stdout.strip()
    while first.health()["workers"]["running"] != 1:
        pass
    first.stop(signal.SIGKILL)
    second = host("--tasks", "shop_handlers")
    while second.health()["workers"]["running"] != 1:
        pass
    tokens = (folder / "charges").read_text().split()
    assert tokens == [f"{run_id}/charge/1"] * 2  # delivered again under the same key
    assert call("cancel", run_id, "--by", "boss").stdout.startswith("cancel accepted")
    cancelled = call("watch", run_id, "--from-start", "--timeout", "60s", "-o", "json")
    assert cancelled.returncode == 1
    assert json.loads(cancelled.stderr)["error"]["code"] == "run_cancelled"


def test_without_an_address_the_folder_has_a_server_of_its_own(call: Call, folder: Path):
    published = call("publish", ".", DUCTOR_DATABASE="")
    assert published.returncode == 0, published.stderr
    assert (folder / ".ductor" / "postgres" / "data").is_dir()
    started = call("start", "order", "--input", '{"order_id": "o-1"}', DUCTOR_DATABASE="")
    listed = json.loads(call("runs", "-o", "json", DUCTOR_DATABASE="").stdout)
    assert [head["run_id"] for head in listed] == [started.stdout.strip()]
    assert not (folder / ".ductor" / "postgres" / "data" / "postmaster.pid").exists()


def test_a_command_that_is_told_to_stop_lets_its_server_go(folder: Path, environment: dict[str, str]):
    folder_only = {**environment, "DUCTOR_DATABASE": ""}
    subprocess.run([*COMMAND, "publish", "."], cwd=folder, env=folder_only, check=True, capture_output=True)
    waiting = [*COMMAND, "start", "order", "--input", '{"order_id": "o-1"}', "--wait"]
    with subprocess.Popen(waiting, cwd=folder, env=folder_only, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "goes on" in line:
                break
        process.terminate()
        process.stderr.read()
    assert process.returncode == 143
    assert not (folder / ".ductor" / "postgres" / "data" / "postmaster.pid").exists()


def test_a_database_that_is_away(call: Call):
    away = call("runs", "--database", "postgresql://postgres@127.0.0.1:1/nothing", "-o", "json")
    assert away.returncode == 2
    assert json.loads(away.stderr)["error"]["code"] == "store_unavailable"
