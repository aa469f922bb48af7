"""A process ends when it is told to, also with handlers that ignore it, on the loop and in threads."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ductor.cli.processes import Call, HostProcess

FLOW = """
ductor: 1
name: stubborn
steps:
  - {ref: a, type: task, task: swallow}
  - {ref: b, type: task, task: hold}
"""
HANDLERS = """
import asyncio
import threading

import ductor


@ductor.task("swallow")
async def swallow() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


@ductor.task("hold")
def hold() -> None:
    threading.Event().wait()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "stubborn.yaml").write_text(FLOW)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    return tmp_path


def test_a_host_ends_without_handlers_that_ignore_that_they_are_cancelled(call: Call, host: Callable[..., HostProcess]):
    call("db", "migrate")
    started = host("--tasks", "handlers", "--definitions", ".", "--drain", "100ms")
    started.health()  # it has published
    assert call("start", "stubborn").returncode == 0
    while started.health()["workers"]["running"] < 2:
        pass
    code, said = started.stop(signal.SIGTERM)
    assert (code, "handlers that ignore that they are cancelled: 1 of them" in said) == (0, True), said
    assert "Traceback" not in said
