"""Workers that live, in the memory store."""

from collections.abc import Sequence

import msgspec

from ductor.journal.clock import Clock
from ductor.journal.codec import checked_key
from ductor.journal.memory_base import MemoryBase
from ductor.journal.worker_store import MAX_WORKERS_LISTED, WORKER_ALIVE_MS, WORKER_BURIED_AFTER_MS, WorkerRecord


class MemoryWorkers(MemoryBase):
    """See `ductor.journal.worker_store`."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._workers: dict[str, WorkerRecord] = {}

    async def beat_worker(self, worker: WorkerRecord) -> None:
        """Register a worker or renew its heartbeat; remove those that have been silent for long."""
        self._check_open()
        worker_id, now_us = checked_key(worker.worker_id, "worker_id"), self._clock.now_us()
        known = self._workers.get(worker_id)
        self._workers[worker_id] = msgspec.structs.replace(
            worker, started_at_us=now_us if known is None else known.started_at_us, heartbeat_at_us=now_us
        )
        silent_since_us = now_us - WORKER_BURIED_AFTER_MS * 1_000
        for other in tuple(self._workers.values()):
            if other.heartbeat_at_us < silent_since_us:
                del self._workers[other.worker_id]

    async def remove_worker(self, worker_id: str) -> None:
        """Remove a worker that leaves."""
        self._check_open()
        self._workers.pop(worker_id, None)

    async def workers(self, *, alive_within_ms: int = WORKER_ALIVE_MS) -> Sequence[WorkerRecord]:
        """Workers whose heartbeat is recent, in order of id."""
        self._check_open()
        since_us = self._clock.now_us() - alive_within_ms * 1_000
        alive = [worker for worker in self._workers.values() if worker.heartbeat_at_us >= since_us]
        return sorted(alive, key=lambda worker: worker.worker_id)[:MAX_WORKERS_LISTED]
