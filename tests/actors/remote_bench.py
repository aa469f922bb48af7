"""A host without handlers and workers that have them, on a store and a queue in memory, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ductor.actors.engine_options import EngineOptions
from ductor.actors.host import EngineHost, HostOptions
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import EnqueueOutcome, Lease, QueueItem, TokenState
from ductor.actors.queue.memory import MemoryQueue
from ductor.actors.queue.policies import QueuePolicies
from ductor.actors.remote_worker import RemoteWorker
from ductor.actors.tasks import Task, TaskRegistry
from ductor.actors.worker_options import WorkerOptions
from ductor.journal.memory import MemoryStore
from ductor.testing import RepeatableIds
from ductor.testing.loop import VirtualTimeLoop
from tests.actors.hosting import definition, serving

NO_POLICIES = QueuePolicies()


class WatchedQueue(MemoryQueue):
    """Counts calls, and can be away. Hosts and workers share it, so that their `close` closes nothing."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.enqueued: list[str] = []
        self.calls = 0
        self.is_away = False

    def _count(self) -> None:
        self.calls += 1
        if self.is_away:
            raise QueueUnavailableError("memory", "the test has it away")

    async def close(self) -> None:
        return

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        self._count()
        self.enqueued += [item.token for item in items]
        return await super().enqueue(items)

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        self._count()
        return await super().withdraw(queue, tokens)

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        self._count()
        return await super().held(queue, tokens)

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        self._count()
        return await super().renew(leases, visibility_ms=visibility_ms)

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        self._count()
        return await super().acknowledge(leases)

    def lose_everything(self) -> None:
        """As a flush does."""
        self._queues.clear()


class RemoteBench:
    """See the module's docstring."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        self.clock = loop.clock
        self.ids = RepeatableIds(self.clock)
        self.store = MemoryStore(self.clock)
        self.queue = WatchedQueue(self.clock)

    @asynccontextmanager
    async def host(
        self,
        text: str,
        *tasks: Task[..., Any],
        remote_queues: tuple[str, ...] = (),
        policies: QueuePolicies = NO_POLICIES,
    ) -> AsyncIterator[EngineHost]:
        """A running host that has published the definition, and has these handlers."""
        await self.store.open()
        options = HostOptions(engine=EngineOptions(remote_queues=remote_queues), policies=policies)
        host = EngineHost(
            self.store,
            TaskRegistry(tasks),
            clock=self.clock,
            ids=self.ids,
            options=options,
            make_queue=lambda _store, _redis, _on_disturbance: self.queue,
        )
        async with serving(host, definition(text)):
            yield host

    @asynccontextmanager
    async def worker(
        self, *tasks: Task[..., Any], queues: Sequence[str] = ("default",), options: WorkerOptions | None = None
    ) -> AsyncIterator[RemoteWorker]:
        """A running worker."""
        await self.store.open()
        worker = RemoteWorker(
            self.store, self.queue, TaskRegistry(tasks), queues=queues, clock=self.clock, options=options
        )
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def settled(self) -> None:
        """Let everything happen that can happen at once."""
        await asyncio.sleep(0.001)
