"""PgQueuer: a job queue in PostgreSQL, no engine of workflows.

A run is a chain of jobs, each of which sends the next one; nothing is kept of their results. Worker and
sender share a process.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from scripts.benchmarks.peers.sides.driver import Options, Side, asyncio_loop, main

BATCH = 64
CONNECTIONS = 20
STOP_TIMEOUT_S = 20


class PgQueuerSide(Side):
    """Chains of jobs. A future of each tells of its end."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._ends: list[asyncio.Future[None]] = []

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
        payloads = [json.dumps([first + number, steps]).encode() for number, steps in enumerate(chains)]
        await self._queries.enqueue(["step"] * len(chains), payloads, [0] * len(chains))
        await asyncio.gather(*ends)

    async def step(self, job: Job) -> None:
        """Carry out a job: send the next of its chain, or tell of the end."""
        chain, left = json.loads(job.payload or b"")
        if left > 1:
            await self._queries.enqueue("step", json.dumps([chain, left - 1]).encode())
        else:
            self._ends[chain].set_result(None)


@asynccontextmanager
async def open_side(options: Options) -> AsyncIterator[Side]:
    """Make the tables, and work."""
    connection = await asyncpg.connect(options.database)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()
    async with asyncpg.create_pool(options.database, min_size=4, max_size=CONNECTIONS) as pool:
        driver = AsyncpgPoolDriver(pool)
        side, queuer = PgQueuerSide(Queries(driver)), PgQueuer(driver)
        queuer.entrypoint("step")(side.step)
        worker = asyncio.create_task(queuer.run(batch_size=BATCH))
        try:
            yield side
        finally:
            queuer.shutdown.set()
            await asyncio.wait([worker], timeout=STOP_TIMEOUT_S)


if __name__ == "__main__":
    main(open_side, asyncio_loop)
