"""Workers that live, in PostgreSQL."""

from collections.abc import Sequence

import msgspec

from ductor.journal.codec import checked_key
from ductor.journal.postgres.database import Database
from ductor.journal.worker_store import MAX_WORKERS_LISTED, WORKER_ALIVE_MS, WORKER_BURIED_AFTER_MS, WorkerRecord

_decode_worker = msgspec.json.Decoder(WorkerRecord).decode


class Workers:
    """See `ductor.journal.worker_store`."""

    _database: Database

    async def beat_worker(self, worker: WorkerRecord) -> None:
        """Register a worker or renew its heartbeat; remove those that have been silent for long."""
        await self._database.fetch(
            "beat_worker",
            worker_id=checked_key(worker.worker_id, "worker_id"),
            queues=list(worker.queues),
            tasks=list(worker.tasks),
            buried_after_us=WORKER_BURIED_AFTER_MS * 1_000,
        )

    async def remove_worker(self, worker_id: str) -> None:
        """Remove a worker that leaves."""
        await self._database.fetch("remove_worker", worker_id=worker_id)

    async def workers(self, *, alive_within_ms: int = WORKER_ALIVE_MS) -> Sequence[WorkerRecord]:
        """Workers whose heartbeat is recent, in order of id."""
        rows = await self._database.fetch("workers", alive_within_us=alive_within_ms * 1_000, limit=MAX_WORKERS_LISTED)
        return [_decode_worker(row[0]) for row in rows]
