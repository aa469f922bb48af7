"""`--traces`: spans of a host go to the exporter that the command line names."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ductor.cli.processes import Call, HostProcess

FLOW = """
ductor: 1
name: traced
steps:
  - {ref: a, type: task, task: one}
"""
HANDLERS = """
import ductor


@ductor.task("one")
async def one() -> int:
    return 1
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "traced.yaml").write_text(FLOW)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


def test_spans_of_a_run_go_to_the_exporter_before_the_host_ends(call: Call, host: Callable[..., HostProcess]):
    call("db", "migrate")
    started = host("--tasks", "handlers", "--definitions", ".", "--traces", "console")
    started.health()
    header = f"00-{TRACE}-00f067aa0ba902b7-01"
    waited = call("start", "traced", "--wait", "--timeout", "50s", "--traceparent", header)
    assert waited.returncode == 0, waited.stderr
    code, said = started.stop(signal.SIGTERM)
    assert code == 0, said
    spans = [one for one in _values(started.unread()) if "context" in one]
    assert {span["name"] for span in spans} == {"start traced", "tick traced", "attempt a", "run traced"}
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{TRACE}"}


def _values(text: str) -> Iterator[dict[str, Any]]:
    """JSON values that stand one after the other."""
    decoder, position = json.JSONDecoder(), 0
    while position < len(text):
        value, position = decoder.raw_decode(text, position)
        yield value
        position += 1  # the end of its line


def test_an_exporter_that_is_not_installed_is_named(call: Call):
    refused = call("host", "--traces", "nobody-has-it", "-o", "json")
    assert refused.returncode == 2
    error = json.loads(refused.stderr)["error"]
    assert (error["code"], error["fields"]["setting"]) == ("invalid_setting", "the exporter of traces")
    assert "console" in error["text"]
    assert "pip install opentelemetry-exporter-otlp" in error["text"]
