"""Commands that the server of commands carries out are what processes of their own would be."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.command_fixtures import CLIENT
from tests.ductor.cli.processes import COMMAND, Call

WAITING = "ductor: 1\nname: waiting\nsteps: [{ref: a, type: wait, signal: go}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "waiting.yaml").write_text(WAITING)
    (tmp_path / "bad.yaml").write_text("steps: 1\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [["validate", "waiting.yaml"], ["validate", "bad.yaml"], ["graph", "-"], ["nonsense"], ["runs", "-o", "json"]],
)
def test_output_and_status_are_those_of_a_process_of_its_own(
    folder: Path, environment: dict[str, str], command_socket: str, arguments: list[str]
):
    own, served = (
        subprocess.run(
            [*command, *arguments],
            cwd=folder,
            env={**environment, **more},
            input=WAITING,
            capture_output=True,
            text=True,
            check=False,
        )
        for command, more in ((COMMAND, {}), (CLIENT, {"DUCTOR_TEST_COMMANDS": command_socket}))
    )
    assert (served.returncode, served.stdout, served.stderr) == (own.returncode, own.stdout, own.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_ends_with_its_client(
    call: Call, folder: Path, environment: dict[str, str], command_socket: str, number: signal.Signals
):
    call("db", "migrate")
    assert call("publish", "waiting.yaml").returncode == 0
    with subprocess.Popen(
        [*CLIENT, "start", "waiting", "--wait", "--timeout", "1h"],
        cwd=folder,
        env={**environment, "DUCTOR_TEST_COMMANDS": command_socket},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as client:
        while call("runs", "-o", "json").stdout == "[]\n":
            pass
        client.send_signal(number)
        client.communicate(timeout=60)  # the command has both streams as long as it lives
    assert client.returncode == -number


def test_where_no_server_is_named_a_command_has_a_process_of_its_own(folder: Path):
    environment = {name: value for name, value in os.environ.items() if name != "DUCTOR_TEST_COMMANDS"}
    done = subprocess.run([*CLIENT, "validate", "waiting.yaml"], cwd=folder, env=environment, check=False)
    assert done.returncode == 0
