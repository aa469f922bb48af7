"""A database for the commands, and the commands themselves, called in a folder."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.command_fixtures import CLIENT
from tests.ductor.cli.processes import Call, HostProcess


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the commands are called; a module of tests that needs files there has its own."""
    return tmp_path


@pytest.fixture
def environment(postgres_server) -> Iterator[dict[str, str]]:
    name = f"cli_{os.getpid()}_{next(_numbers)}"
    asyncio.run(postgres_server.create_database(name))
    yield {**os.environ, "DUCTOR_DATABASE": postgres_server.dsn(name), "PYTHONUNBUFFERED": "1"}
    asyncio.run(postgres_server.drop_database(name))


_numbers = iter(range(1_000))


@pytest.fixture
def call(folder: Path, environment: dict[str, str], command_socket: str) -> Call:
    def command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*CLIENT, *arguments],
            cwd=folder,
            env={**environment, "DUCTOR_TEST_COMMANDS": command_socket, **more},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return command


@pytest.fixture
def host(folder: Path, environment: dict[str, str]) -> Iterator[Callable[..., HostProcess]]:
    started: list[HostProcess] = []

    def start(*arguments: str) -> HostProcess:
        started.append(HostProcess(folder, *arguments, environment=environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)
