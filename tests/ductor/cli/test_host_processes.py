"""`ductor host --processes`: several hosts from one command, that share the runs."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from ductor.journal.partitions import PARTITIONS
from tests.ductor.cli.processes import Call, HostProcess

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
