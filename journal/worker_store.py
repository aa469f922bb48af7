"""Workers that live: processes that run handlers and carry out no runs.

Each says so itself, again and again, by the clock of the store. Nothing depends on it: an attempt is safe by its lease.
It tells people whether there is anybody who could take an attempt.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

WORKER_BEAT_MS: Final = 2_000
"""Between two signs of life of a worker."""
WORKER_ALIVE_MS: Final = 3 * WORKER_BEAT_MS
"""A worker whose heartbeat is older counts as gone."""
WORKER_BURIED_AFTER_MS: Final = 60_000
"""A worker whose heartbeat is older is removed by the next one that beats."""
MAX_WORKERS_LISTED: Final = 10_000
"""Workers that one list has at most; of more, those with the first ids."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is registered, by the store's clock.

    Attributes:
        queues: whose attempts it takes, those of the first one before all others.
        tasks: handlers that it has.
    """

    worker_id: str
    queues: tuple[str, ...]
    tasks: tuple[str, ...]
    started_at_us: int = 0
    heartbeat_at_us: int = 0


class WorkerStore(Protocol):
    """Part of `ductor.journal.store.Store`; see the module's docstring."""

    async def beat_worker(self, worker: WorkerRecord) -> None:
        """Register a worker or renew its heartbeat, both by the store's clock; its times in `worker` don't matter.
        Workers that have been silent for longer than WORKER_BURIED_AFTER_MS are removed."""
        ...

    async def remove_worker(self, worker_id: str) -> None:
        """Remove a worker that leaves."""
        ...

    async def workers(self, *, alive_within_ms: int = WORKER_ALIVE_MS) -> Sequence[WorkerRecord]:
        """Workers whose heartbeat is recent by the store's clock, in order of id, MAX_WORKERS_LISTED at most."""
        ...
