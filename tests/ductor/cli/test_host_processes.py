"""`ductor host --processes`: several hosts from one command, that share the runs."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from urllib.error import URLError
from urllib.request import urlopen

from ductor.journal.partitions import PARTITIONS
from tests.ductor.cli.processes import Call, HostProcess
from tests.ductor.observability.http import parsed, value

WAIT_S = 60.0
FLOW = """
ductor: 1
name: greeting
steps: [{ref: a, type: transform, value: 1}]
"""


def test_hosts_of_one_command_share_runs_and_end_together(
    call: Call, host: Callable[..., HostProcess], folder: Path
) -> None:
    (folder / "greeting.yaml").write_text(FLOW)
    call("db", "migrate")
    group = host("--definitions", ".", "--processes", "2")
    shares: dict[str, int] = {}
    while len(shares) < 2 or sum(shares.values()) != PARTITIONS:
        health = group.health()
        shares[health["host_id"]] = health["partitions"]
    assert all(shares.values())
    killed = int(next(iter(shares)).split(":")[1])
    os.kill(killed, signal.SIGKILL)
    while health["host_id"] in shares or not health["neighbours"]:
        health = group.health()  # of the one that was started instead
    for _ in range(5):
        started = call("start", "greeting", "--wait", "--timeout", "30s")
        assert started.returncode == 0, started.stderr
    code, said = group.stop(signal.SIGTERM)
    assert (code, said.count("stopped")) == (0, 2), said
    assert json.loads(call("runs", "--status", "completed", "-o", "json").stdout)


def test_the_number_of_processes_has_bounds(call: Call):
    refused = call("host", "--processes", "0")
    assert refused.returncode == 2
    assert "--processes" in refused.stderr


def two_ports() -> int:
    """The first of two free ports below those that the system gives to clients: one that asks in vain at one of these
    may be given the very port, and answer itself."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        with suppress(OSError), socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 1))
            return port
    raise AssertionError("no two free ports")


def test_processes_answer_for_their_metrics_and_health_on_ports_of_their_own(
    call: Call, host: Callable[..., HostProcess], folder: Path
) -> None:
    (folder / "greeting.yaml").write_text(FLOW)
    call("db", "migrate")
    port = two_ports()
    group = host(
        *("--definitions", ".", "--processes", "2", "--metrics-port", str(port), "--log-format", "json", "--log-runs")
    )
    found: set[str] = set()
    until_s = time.monotonic() + WAIT_S
    while len(found) < 2 and time.monotonic() < until_s:
        for number in (port, port + 1):
            with suppress(URLError), urlopen(f"http://127.0.0.1:{number}/ready") as answer:
                found.add(json.load(answer)["host_id"])
    assert len(found) == 2
    assert call("start", "greeting", "--wait", "--timeout", "30s").returncode == 0
    started = 0.0
    for number in (port, port + 1):
        with urlopen(f"http://127.0.0.1:{number}/metrics") as answer:
            samples = parsed(answer.read())
        assert value(samples, "up") == 1
        assert value(samples, "build_info", version=version("ductor-engine"), python=python_version()) == 1
        started += value(samples, "runs_started_total", definition="greeting") or 0
    assert started == 1
    code, said = group.stop(signal.SIGTERM)
    assert code == 0
    lines = [json.loads(line) for line in said.splitlines()]
    (ended,) = (line for line in lines if line["logger"] == "ductor.run" and line.get("status") == "completed")
    assert ended["definition"] == "greeting"
    assert len({line["host"] for line in lines if line["message"] == "stopped"}) == 2
