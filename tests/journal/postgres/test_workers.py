"""What PostgreSQL alone can show of workers: that silent ones are removed, and by several at once."""

import asyncio

import asyncpg

from ductor.journal.postgres import PostgresStore
from ductor.journal.worker_store import WORKER_BURIED_AFTER_MS, WorkerRecord
from tests.postgres_fixtures import Database


def worker(worker_id: str) -> WorkerRecord:
    return WorkerRecord(worker_id=worker_id, queues=("gpu",), tasks=("label.render",))


async def test_silent_workers_are_removed_by_others_that_beat(database: Database):
    async with PostgresStore(database.dsn) as store:
        for number in range(20):
            await store.beat_worker(worker(f"silent-{number}"))
        await store.beat_worker(worker("young"))
        connection = await asyncpg.connect(database.dsn)
        try:
            await connection.execute(
                "UPDATE ductor.eec_worker SET heartbeat_at_us = heartbeat_at_us - $1 WHERE worker_id LIKE 'silent-%'",
                WORKER_BURIED_AFTER_MS * 1_000,
            )
        finally:
            await connection.close()
        await asyncio.gather(*(store.beat_worker(worker(name)) for name in ("a", "b", "c", "silent-7")))
        left = await store.workers(alive_within_ms=2**31)
        assert [one.worker_id for one in left] == ["a", "b", "c", "silent-7", "young"]
