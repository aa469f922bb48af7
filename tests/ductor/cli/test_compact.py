"""Compacting a run with the real command, on a real PostgreSQL."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ductor.cli.processes import Call, HostProcess

LISTENING = """
ductor: 1
name: listening
steps:
  - {ref: first, type: wait, signal: word, next: second}
  - {ref: second, type: wait, signal: word}
"""
RECEIPT_TIMEOUT_S = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "listening.yaml").write_text(LISTENING)
    return tmp_path


def taken_up(call: Call, run_id: str, request_id: str) -> str:
    """What became of a request or a message, once something has."""
    until = time.monotonic() + RECEIPT_TIMEOUT_S
    while time.monotonic() < until:
        text = call("receipt", run_id, request_id).stdout
        if "waiting to be taken up" not in text:
            return text
    raise AssertionError(f"nothing became of {request_id}")


def test_a_run_is_compacted_goes_on_and_is_proved(call: Call, host: Callable[..., HostProcess], folder: Path):
    assert call("db", "migrate").returncode == 0
    host("--definitions", ".").health()
    run_id = call("start", "listening").stdout.strip()
    assert call("signal", run_id, "word", "--request-id", "a").returncode == 0
    assert "consumed" in taken_up(call, run_id, "a")
    asked = call("compact", run_id, "--by", "ann", "--reason", "long", "--request-id", "c-1")
    assert (asked.returncode, asked.stdout) == (0, "compact accepted (request c-1)\n")
    assert call("compact", run_id, "--request-id", "c-1").returncode == 5
    assert "applied" in taken_up(call, run_id, "c-1")
    assert call("signal", run_id, "word", "--request-id", "b").returncode == 0
    assert call("watch", run_id, "--timeout", "30s").returncode == 0

    rows = json.loads(call("history", run_id, "-o", "json").stdout)
    kinds = [row["events"][0]["type"] for row in rows]
    assert kinds.count("run_compacted") == 1
    assert "run_compacted" in call("history", run_id).stdout
    assert call("verify", run_id).returncode == 0
    assert call("compact", run_id).returncode == 5
