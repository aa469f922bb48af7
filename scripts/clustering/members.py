"""Hosts and workers, each in a process of its own, for being killed.

They are forked from a server that has everything imported. A process that is killed is back within a fraction of the
time that the interpreter alone would need, so it is the engine that is struck, and not the machine that is kept busy.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from ductor.cli.main import run

COMMON_OPTIONS: Final = ("--health", "3600s", "--drain", "10s")
STOP_TIMEOUT_S: Final = 45.0
IMPORTED: Final = (
    "ductor.cli.host",
    "ductor.cli.worker",
    "ductor.host",
    "ductor.worker",
    "ductor.observability.logs",
    "ductor.actors.queue.redis.queue",
    "ductor.process",
    "uvloop",
)

_fork_server = multiprocessing.get_context("forkserver")
_fork_server.set_forkserver_preload([__name__, *IMPORTED])


class Member:
    """A host or a worker: started, killed, frozen, started again, stopped in order. What it logs goes to a file."""

    def __init__(self, name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Args: `arguments` of `ductor`; `environment` is what is added to that of this process."""
        self.name, self._environment, self._log = name, dict(environment), log
        self._arguments = [*arguments, *COMMON_OPTIONS]
        self._process: multiprocessing.context.ForkServerProcess | None = None

    async def start(self) -> None:
        """Start it, and return when it has come up; again while what it needs is away, as a supervisor would."""
        while not await self._comes_up():
            continue

    async def kill(self) -> None:
        """kill -9."""
        if self._is_running:
            self._send(signal.SIGKILL)
        await self._end()

    def freeze(self) -> None:
        """Let it stand still, with everything that it has open."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, as if no time had passed."""
        self._send(signal.SIGCONT)

    async def stop(self) -> None:
        """Have it drain, and kill it if that takes too long."""
        if not self._is_running:
            return
        self.thaw()
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._end()
        except TimeoutError:
            await self.kill()

    @property
    def pid(self) -> int:
        """Its process id, of the latest life."""
        assert self._process is not None, f"{self.name} was never started"
        assert self._process.pid is not None
        return self._process.pid

    @property
    def _is_running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    async def _comes_up(self) -> bool:
        """Start it once; whether it told of itself before it ended."""
        ours, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (self._arguments, self._environment, str(self._log), theirs)
        self._process = _fork_server.Process(target=_be_member, args=arguments, name=self.name)
        self._process.start()
        theirs.close()
        try:
            await _readable(ours.fileno())
            if os.read(ours.fileno(), 1):
                return True
        finally:
            ours.close()
        await self._end()
        return False

    async def _end(self) -> None:
        """Wait for its end."""
        assert self._process is not None
        await _readable(self._process.sentinel)
        self._process.join()

    def _send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


def _be_member(arguments: list[str], environment: dict[str, str], log: str, told: Connection) -> None:
    """What the forked process does: `ductor ARGUMENTS`, with its output to `told` and its log to a file."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    os.environ.update(environment)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), sys.stderr.fileno())
    os.dup2(told.fileno(), sys.stdout.fileno())
    told.close()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # nobody reads more than its first words
    sys.exit(run(arguments))


def _die_with_parent() -> None:
    """Whoever started it may be killed, too: nobody would stop it then."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read, or nobody left who could write."""
    loop, is_readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(descriptor)
