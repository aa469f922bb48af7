"""Hosts and workers in processes of their own, for being killed."""

import asyncio
import signal
import sys
from pathlib import Path

from ductor.actors.engine_options import EngineOptions


class ProgramProcess:
    """A program in a process of its own, started again after each kill. It says `ready` when it is."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start, and wait until it is ready; again while the server is away, as a process supervisor would."""
        while True:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
            assert self._process.stdout is not None
            if await self._process.stdout.readline() == b"ready\n":
                return
            assert await self._process.wait() != 0

    async def kill(self) -> None:
        """kill -9, and wait for the end."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def ended(self) -> int:
        """Wait for the end, however it comes; the exit status."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> int:
        """Tell it to end, as a process supervisor would; its exit status."""
        assert self._process is not None
        self._process.terminate()
        return await self._process.wait()

    def freeze(self) -> None:
        """Let it stand still, with everything that it has open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on, as if no time had passed."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class HostProcess(ProgramProcess):
    """A host with the handlers of `host_program`."""

    def __init__(self, dsn: str, ledger: Path, *, max_losses: int = EngineOptions().max_losses) -> None:
        super().__init__("tests.chaos.host_program", dsn, str(ledger), str(max_losses))
