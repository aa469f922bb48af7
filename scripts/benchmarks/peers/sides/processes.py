"""Processes that a side starts, and what processes use. Figures come from /proc, so from Linux."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

READY_TIMEOUT_S = 60.0
READY_POLL_S = 0.1
STOP_TIMEOUT_S = 10.0

_PROC = Path("/proc")


class NotReadyError(Exception):
    """A server did not come up; its log says why."""


@asynccontextmanager
async def running(
    command: Sequence[str],
    log: Path,
    is_ready: Callable[[], Awaitable[bool]],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> AsyncIterator[int]:
    """Run a server for the length of the block; its process id.

    Args:
        log: where it writes.
        is_ready: says when it is up.
        environment, folder: those of this process unless given.

    Raises:
        NotReadyError: it ended, or was not ready within `READY_TIMEOUT_S`.
    """
    with log.open("ab") as out:
        server = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out, env=environment, cwd=folder
        )
    try:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not await is_ready():
            if server.returncode is not None or time.monotonic() > deadline:
                tail = log.read_text(encoding="utf-8", errors="replace")[-1_000:]
                raise NotReadyError(f"{command[0]} did not come up: {tail}")
            await asyncio.sleep(READY_POLL_S)
        yield server.pid
    finally:
        await stop(server)


async def stop(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end; make it, where it takes longer than `STOP_TIMEOUT_S`."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def is_listening(port: int) -> bool:
    """Whether somebody accepts connections on a port of the loopback address."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def trees(pids: Iterable[int]) -> set[int]:
    """These processes and all below them."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and (fields := stat_fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    left = list(pids)
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left.extend(children.get(pid, ()))
    return found


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (the parent is the second); empty where it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return text.rpartition(")")[2].split()


def memory_bytes(pids: Iterable[int]) -> int:
    """Memory of processes and all below them; what several share is counted once, in parts (PSS)."""
    total = 0
    for pid in trees(pids):
        try:
            rollup = (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii")
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total * 1_024
