"""The Redis server of tests does not outlive the process that started it."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.redis_server import BUS_PORT_OFFSET, PORTS, RedisServer, reserve_port

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


def test_a_server_takes_another_port_when_somebody_came_first(tmp_path: Path):
    server = RedisServer(tmp_path)
    taken = server.port
    with socket.create_server(("127.0.0.1", taken)):
        server.start()
        assert server.port != taken
    with server.client() as client:
        assert client.ping()
    server.stop()


def test_another_server_at_the_port_is_not_taken_for_it(tmp_path: Path):
    server, other = RedisServer(tmp_path), RedisServer(tmp_path)
    other.port = server.port
    server.start()
    other.start()
    assert other.port != server.port
    other.stop()
    server.stop()


def test_a_server_that_has_an_address_keeps_it_or_fails(tmp_path: Path):
    server = RedisServer(tmp_path)
    server.start()
    port = server.port
    server.kill()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(redis.RedisError):
        server.start()
    assert server.port == port
    server.stop()


def test_ports_are_reserved_and_fit_for_a_cluster():
    port, reservation = reserve_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second, pytest.raises(OSError, match="in use"):
        second.bind(("127.0.0.1", port))
    reservation.close()
    assert PORTS[-1] + BUS_PORT_OFFSET < 32_768
