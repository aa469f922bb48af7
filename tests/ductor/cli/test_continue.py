"""Continuing runs as new ones with the real command, on a real PostgreSQL."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ductor.cli.processes import Call, HostProcess

ACCOUNT = """
ductor: 1
name: account
context: {heard: 0}
repeat: {until: context.heard >= 2, max: 10}
steps:
  - {ref: hear, type: wait, signal: word, effects: {heard: "${context.heard + 1}"}}
output: ${context.heard}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "account.yaml").write_text(ACCOUNT)
    return tmp_path


def test_a_chain_is_one_run_on_the_command_line(call: Call, host: Callable[..., HostProcess]):
    assert call("db", "migrate").returncode == 0
    host("--definitions", ".").health()
    run_id = call("start", "account").stdout.strip()
    asked = call("continue", run_id, "--by", "ann", "--reason", "old", "--request-id", "c-1")
    assert (asked.returncode, asked.stdout) == (0, "continue accepted (request c-1)\n")
    assert call("continue", run_id, "--request-id", "c-1").returncode == 5
    for word in ("a", "b"):
        assert call("signal", run_id, "word", "--request-id", word).returncode == 0
    assert call("watch", run_id, "--timeout", "30s").returncode == 0

    shown = json.loads(call("show", run_id, "-o", "json").stdout)
    assert (shown["status"], shown["output"], shown["chain_run_id"]) == ("completed", 2, run_id)
    assert f"run {shown['iteration'] + 1} of the chain that {run_id} began" in call("show", run_id).stdout
    assert json.loads(call("show", run_id, "--no-follow", "-o", "json").stdout)["status"] == "continued"
    assert "continued as run" in call("explain", run_id, "--no-follow").stdout

    rows = json.loads(call("history", run_id, "--chain", "-o", "json").stdout)
    assert {row["iteration"] for row in rows} == set(range(shown["iteration"] + 1))
    assert {row["run_id"] for row in json.loads(call("history", run_id, "-o", "json").stdout)} == {shown["run_id"]}
    assert "continued as run" in call("history", run_id, "--chain").stdout

    assert len(json.loads(call("runs", "-o", "json").stdout)) == 1
    every = json.loads(call("runs", "--continued", "-o", "json").stdout)
    assert len(every) == shown["iteration"] + 1
    for options, count in (((), shown["iteration"] + 1), (("--no-follow",), 1)):
        for which in ((run_id,), (shown["run_id"],), ("--definition", "account")):
            written = call("export", *which, "-f", "out.jsonl", *options, "-o", "json")
            assert json.loads(written.stdout)["runs"] == count, (which, options)
    for options, count in (((), shown["iteration"] + 1), (("--no-follow",), 1)):
        checked = call("verify-history", "--definition", "account", "--against", ".", *options, "-o", "json")
        assert json.loads(checked.stdout)["runs"] == count, options
    both = call("export", run_id, shown["run_id"], "-f", "out.jsonl", "-o", "json")
    assert json.loads(both.stdout)["runs"] == shown["iteration"] + 1
    assert "applied" in call("receipt", run_id, "c-1").stdout
    assert call("signal", run_id, "word", "--request-id", "a").returncode == 5
