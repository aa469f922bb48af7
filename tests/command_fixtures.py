"""The command line for tests that call it often (see `command_server`)."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import command_client, command_server

CLIENT = [sys.executable, "-I", "-S", command_client.__file__]
"""The command, to which arguments are added."""


@pytest.fixture(scope="session")
def command_socket() -> Iterator[str]:
    """Where the server of commands listens: the value of DUCTOR_TEST_COMMANDS for `command_client`."""
    with tempfile.TemporaryDirectory(prefix="ductor-test-commands-") as folder:
        path = str(Path(folder, "socket"))
        with subprocess.Popen(
            [sys.executable, command_server.__file__, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield path
            assert server.stdin is not None
            server.stdin.close()
            assert server.wait() == 0


@pytest.fixture(scope="session")
def command_environment(command_socket: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a shell needs that calls `ductor` by its name."""
    folder = tmp_path_factory.mktemp("commands")
    command = folder / "ductor"
    command.write_text(f'#!/bin/sh\nexec {shlex.join(CLIENT)} "$@"\n')
    command.chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "DUCTOR_TEST_COMMANDS": command_socket}
