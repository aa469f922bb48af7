"""A handler that blocks the event loop of its host for longer than a host may be silent: time is lost, nothing else."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import pytest

from ductor.actors.sweeper import HOST_ALIVE_MS
from tests.ductor.cli.processes import Call, HostProcess
from tests.ductor.observability.http import parsed, value
from tests.redis_server import reserve_port

FLOW = """
ductor: 1
name: blocking
steps:
  - {ref: a, type: task, task: block, next: b}
  - {ref: b, type: task, task: note, input: {by: "${steps.a.output}"}}
output: {by: "${steps.b.output}"}
"""
HANDLERS = """
import os
import time
from pathlib import Path

import ductor


@ductor.task("block")
async def block() -> int:
    with Path("calls").open("a") as calls:
        calls.write(f"{os.getpid()}\\n")
    if len(Path("calls").read_text().split()) == 1:
        time.sleep(SECONDS)
    return os.getpid()


@ductor.task("note")
async def note(by: int) -> int:
    return by
"""
BLOCKED_S = HOST_ALIVE_MS / 1_000 + 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "blocking.yaml").write_text(FLOW)
    (tmp_path / "handlers.py").write_text(HANDLERS.replace("SECONDS", str(BLOCKED_S)))
    return tmp_path


def test_a_host_whose_loop_is_blocked_does_no_harm_and_is_told_of(
    call: Call, host: Callable[..., HostProcess], folder: Path
):
    call("db", "migrate")
    (one_port, one), (other_port, other) = reserve_port(), reserve_port()
    with one, other:
        hosts = [
            host("--tasks", "handlers", "--definitions", ".", "--metrics-port", str(port))
            for port in (one_port, other_port)
        ]
        while any(len(each.health()["neighbours"]) != 1 for each in hosts):
            pass
        waited = call("start", "blocking", "--wait", "--timeout", "50s", "-o", "json")
        assert waited.returncode == 0, waited.stderr
        (run,) = json.loads(call("runs", "-o", "json").stdout)
        calls = [int(line) for line in (folder / "calls").read_text().split()]
        assert len(calls) == 2
        blocked, rescuer = calls
        assert blocked != rescuer
        by_pid = {each.process.pid: each for each in hosts}
        ports = {hosts[0].process.pid: one_port, hosts[1].process.pid: other_port}
        # the blocked one has gone on, and is one of two again
        while len(by_pid[blocked].health()["neighbours"]) != 1 or len(by_pid[rescuer].health()["neighbours"]) != 1:
            pass
        with urlopen(f"http://127.0.0.1:{ports[blocked]}/metrics") as answer:
            samples = parsed(answer.read())
        assert value(samples, "loop_blocks_total", task="block") == 1
        blocked_s = value(samples, "loop_blocked_seconds_total", task="block")
        assert blocked_s is not None
        assert blocked_s >= BLOCKED_S - 1
        rows = json.loads(call("history", run["run_id"], "-o", "json").stdout)
        results = [event for row in rows for event in row["events"] if event["type"] == "attempt_finished"]
        assert [result["node"] for result in results] == ["a", "b"]
        assert results[0]["output"] == rescuer
        assert json.loads(call("show", run["run_id"], "-o", "json").stdout)["output"] == {"by": rescuer}
        said = {pid: each.stop(signal.SIGTERM)[1] for pid, each in by_pid.items()}
    assert f"handler 'block' ({run['run_id']}/a/1) has blocked the event loop for" in said[blocked]
    assert "handlers.py" in said[blocked]
    assert f"handler 'block' ({run['run_id']}/a/1) blocked the event loop for" in said[blocked]
    assert "taking over from" in said[rescuer]
    assert "blocked the event loop" not in said[rescuer]
