"""The Redis server of tests does not outlive the process that started it."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.redis_server import RedisServer

STARTER = """
import sys
from pathlib import Path
from tests.redis_server import RedisServer
server = RedisServer(Path(sys.argv[1]))
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""
WAIT_S = 20


def ends(connection: socket.socket) -> bool:
    """Wait for the other side to end."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path, number: signal.Signals):
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        port = int(starter.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
            starter.send_signal(number)
            assert ends(connection)


def test_a_server_that_was_stopped_leaves_no_watcher(tmp_path: Path):
    server = RedisServer(tmp_path)
    server.start()
    first = server._watcher
    server.kill()
    server.start()
    second = server._watcher
    server.stop()
    assert first is not None
    assert second is not None
    assert (first.returncode, second.returncode) == (0, 0)
