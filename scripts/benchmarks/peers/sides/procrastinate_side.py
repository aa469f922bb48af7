"""Procrastinate: a job queue in PostgreSQL, no engine of workflows.

A run is a chain of jobs, each of which defers the next one; nothing is kept of their results. Worker and
sender share a process.

The worker polls every 100 ms: at the default of 5 s, a job that the last running job has deferred would wait so long.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import procrastinate

from scripts.benchmarks.peers.sides.driver import Options, Side, asyncio_loop, main

POLL_S = 0.1
CONNECTIONS = 20
CONCURRENCY = 64
QUEUE = "bench"


class ProcrastinateSide(Side):
    """Chains of jobs. A future of each tells of its end."""

    def __init__(self, app: procrastinate.App) -> None:
        self._ends: list[asyncio.Future[None]] = []
        self._step = app.task(name="step", queue=QUEUE)(self._carry_out)

    async def run(self, steps: int) -> None:
        await self._send([steps])

    async def gather_runs(self, count: int) -> int:
        await self._send([1] * count)
        return count

    async def _send(self, chains: list[int]) -> None:
        first = len(self._ends)
        loop = asyncio.get_running_loop()
        ends = [loop.create_future() for _ in chains]
        self._ends.extend(ends)
        jobs = ({"chain": first + number, "left": steps} for number, steps in enumerate(chains))
        await self._step.batch_defer_async(*jobs)
        await asyncio.gather(*ends)

    async def _carry_out(self, chain: int, left: int) -> None:
        if left > 1:
            await self._step.defer_async(chain=chain, left=left - 1)
        else:
            self._ends[chain].set_result(None)


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Make the tables, and work."""
    connector = procrastinate.PsycopgConnector(conninfo=options.database, max_size=CONNECTIONS)
    app = procrastinate.App(connector=connector)
    side = ProcrastinateSide(app)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(
                queues=[QUEUE],
                concurrency=CONCURRENCY,
                install_signal_handlers=False,
                fetch_job_polling_interval=POLL_S,
            )
        )
        try:
            yield side
        finally:
            worker.cancel()
            await asyncio.wait([worker])


if __name__ == "__main__":
    main(open_side, asyncio_loop)
