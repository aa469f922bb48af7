"""`ductor worker` and `ductor queue` in processes of their own, on real PostgreSQL, with and without Redis."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.ductor.cli.processes import Call, HostProcess
from tests.ductor.observability.http import parsed, value
from tests.redis_server import RedisServer, reserve_port

FLOW = """
ductor: 1
name: remote
input: {type: object}
steps:
  - {ref: a, type: task, task: square, queue: math, input: {n: "${trigger.n}"}, next: b}
  - {ref: b, type: task, task: square, queue: math, input: {n: "${steps.a.output}"}}
output: {n: "${steps.b.output}"}
"""
HANDLERS = """
import os
import signal

import ductor


@ductor.task("square")
async def square(n: int) -> int:
    if n == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return n * n
"""
Start = Callable[..., HostProcess]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "remote.yaml").write_text(FLOW)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


@pytest.fixture(params=["postgres", "redis"])
def environment(request: pytest.FixtureRequest, environment: dict[str, str]) -> dict[str, str]:
    """With and without Redis."""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        shard = environment["DUCTOR_DATABASE"].rpartition("/")[2].partition("?")[0]
        return {**environment, "DUCTOR_REDIS_URL": server.url, "DUCTOR_REDIS_SHARD": shard}
    return environment


@pytest.fixture
def worker(folder: Path, environment: dict[str, str]) -> Iterator[Start]:
    started: list[HostProcess] = []

    def start(*arguments: str) -> HostProcess:
        command = ("--tasks", "handlers", "--queues", "math", *arguments)
        started.append(HostProcess(folder, *command, environment=environment, command="worker"))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)


def test_workers_carry_out_what_hosts_have_no_handlers_for(call: Call, host: Start, worker: Start):
    call("db", "migrate")
    host("--definitions", ".").health()
    run_id = call("start", "remote", "--input", '{"n": 3}').stdout.strip()
    while json.loads(call("queue", "depth", "math", "-o", "json").stdout)[0]["queued"] == 0:
        pass
    assert "default" in call("queue", "depth", "math").stdout
    working = worker()
    assert working.health()["queues"] == ["math"]
    (listed,) = json.loads(call("workers", "--queue", "math", "-o", "json").stdout)
    assert (listed["queues"], listed["tasks"]) == (["math"], ["square"])
    assert json.loads(call("workers", "--queue", "default", "-o", "json").stdout) == []
    assert listed["worker_id"] in call("workers").stdout.replace("\n", "")
    (carrier,) = json.loads(call("hosts", "-o", "json").stdout)
    assert carrier["tasks"] == []
    watched = call("watch", run_id, "--timeout", "30s", "-o", "jsonl")
    assert watched.returncode == 0, watched.stderr
    waited = call("start", "remote", "--input", '{"n": 5}', "--wait", "--timeout", "30s")
    assert (waited.returncode, json.loads(waited.stdout)) == (0, {"n": 625})
    code, said = working.stop(signal.SIGTERM)
    assert (code, "stopped" in said) == (0, True), said
    assert json.loads(call("workers", "-o", "json").stdout) == []


def test_what_kills_workers_is_set_aside_shown_dropped_and_replayed(call: Call, host: Start, worker: Start):
    call("db", "migrate")
    host("--definitions", ".").health()
    run_id = call("start", "remote", "--input", '{"n": 13}').stdout.strip()
    for _ in range(5):
        working = worker("--visibility", "300ms")
        working.process.wait(60)
        assert working.stop(signal.SIGTERM)[0] == -signal.SIGKILL  # it has killed itself already
    worker().health()
    while not (letters := json.loads(call("queue", "dead", "math", "-o", "json").stdout)):
        pass
    token = f"{run_id}/a/1"
    assert [(one["token"], one["deliveries"], one["work"]["assignment"]["task"]) for one in letters] == [
        (token, 5, "square")
    ]
    assert token in call("queue", "dead", "math").stdout
    for command in ("explain", "show"):
        assert f"ductor queue replay math {token}" in " ".join(call(command, run_id).stdout.split())
    assert call("queue", "replay", "math", "run/x/1").returncode == 3
    assert call("queue", "drop", "math").returncode == 2
    assert call("queue", "drop", "math", token).returncode == 0
    assert json.loads(call("queue", "dead", "math", "-o", "json").stdout) == []
    assert call("queue", "replay", "math").returncode == 0


def test_a_worker_answers_for_its_metrics_and_health(call: Call, host: Start, worker: Start):
    call("db", "migrate")
    host("--definitions", ".").health()
    port, reservation = reserve_port()
    with reservation:
        working = worker("--metrics-port", str(port))
        worker_id = working.health()["worker_id"]
        with urlopen(f"http://127.0.0.1:{port}/ready") as answer:
            assert json.load(answer)["worker_id"] == worker_id
        assert call("start", "remote", "--input", '{"n": 3}', "--wait", "--timeout", "30s").returncode == 0
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            samples = parsed(answer.read())
    assert value(samples, "worker_attempts_finished_total", task="square", outcome="succeeded") == 2
    assert value(samples, "worker_up") == 1
    assert working.stop(signal.SIGTERM)[0] == 0


def test_a_worker_says_what_it_can_not_do(call: Call):
    call("db", "migrate")
    assert call("worker", "--tasks", "nowhere").returncode == 2
    idle = call("worker", "--tasks", "handlers", "--concurrency", "0")
    assert (idle.returncode, "concurrency is 0; 1 to " in idle.stderr) == (2, True)
    assert call("worker").returncode == 2
