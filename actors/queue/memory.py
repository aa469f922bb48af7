"""The distributed queue inside one process, for tests and simulations: every rule, on the clock that is handed in."""

import asyncio
from collections.abc import Mapping, Sequence

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, check_count, check_lease_arguments
from ductor.actors.queue.items import (
    DeadLetter,
    EnqueueOutcome,
    LanePolicy,
    Lease,
    QueueDepth,
    QueueHealth,
    QueueItem,
    QueuePolicy,
    TokenState,
    checked_item,
)
from ductor.actors.queue.memory_lanes import TIER, QueueState
from ductor.journal.clock import Clock


class MemoryQueue:
    """See `DistributedQueue`. All that share the object share its queues."""

    def __init__(self, clock: Clock) -> None:
        """Args: `clock` decides what has run out; callers wait by the time of their event loop."""
        self._clock = clock
        self._queues: dict[str, QueueState] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._is_closed = False

    async def open(self) -> None:
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        self._ring()

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        check_count(len(items))
        for item in items:
            checked_item(item)
        now_us = self._clock.now_us()
        outcomes = [self._queue(item.queue).enqueue(item, now_us) for item in items]
        self._ring()
        return outcomes

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        check_lease_arguments(queues, max_items, visibility_ms, wait_ms)
        until_us = self._clock.now_us() + wait_ms * 1_000
        while True:
            now_us = self._clock.now_us()
            leases: list[Lease] = []
            for name in queues:
                wanted = max_items - len(leases)
                if wanted:
                    leases.extend(self._queue(name).lease(wanted, visibility_ms, now_us))
            if leases or now_us >= until_us or self._is_closed:
                return leases
            due_us = [due for name in queues if (due := self._queue(name).next_due_us()) is not None]
            await self._wait_for_ring(max(1, min([until_us, *due_us]) - now_us))

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        check_count(len(leases))
        now_us = self._clock.now_us()
        return [self._queue(lease.item.queue).renew(lease, visibility_ms, now_us) for lease in leases]

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        check_count(len(leases))
        answers = [self._queue(lease.item.queue).acknowledge(lease) for lease in leases]
        self._ring()
        return answers

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        check_count(len(leases))
        answers = [self._queue(lease.item.queue).release(lease) for lease in leases]
        self._ring()
        return answers

    async def adopt(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[Lease | None]:
        check_count(len(leases))
        now_us = self._clock.now_us()
        return [self._queue(lease.item.queue).adopt(lease, visibility_ms, now_us) for lease in leases]

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        state = self._queue(queue)
        withdrawn = {token: stood for token in tokens if (stood := state.withdraw(token)) is not None}
        self._ring()
        return withdrawn

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        check_count(len(tokens))
        state = self._queue(queue)
        return {token: stands for token in tokens if (stands := state.held(token)) is not None}

    async def depth(self, queue: str) -> QueueDepth:
        return self._queue(queue).depth(self._clock.now_us())

    async def dead_letters(self, queue: str, *, limit: int = MAX_ITEMS_PER_CALL) -> list[DeadLetter]:
        check_count(limit)
        state = self._queue(queue)
        state.take_back(self._clock.now_us())
        return state.dead_letters(limit)

    async def replay(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        answers = [self._queue(queue).replay(token) for token in tokens]
        self._ring()
        return answers

    async def drop(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        check_count(len(tokens))
        return [self._queue(queue).drop(token) for token in tokens]

    async def set_lane_policy(self, queue: str, tenant: str, policy: LanePolicy) -> None:
        self._queue(queue).set_lane_policy(tenant, policy)
        self._ring()

    async def set_queue_policy(self, queue: str, policy: QueuePolicy) -> None:
        self._queue(queue).policy = policy
        self._ring()

    async def health(self) -> QueueHealth:
        return QueueHealth(tier=TIER, is_available=not self._is_closed, reason="closed" if self._is_closed else "")

    def expire_leases(self) -> None:
        """Let every lease run out now, as if all who have one had died a while ago."""
        for state in self._queues.values():
            state.expire_leases()
        self._ring()

    def _queue(self, name: str) -> QueueState:
        state = self._queues.get(name)
        if state is None:
            state = self._queues[name] = QueueState(name)
        return state

    def _ring(self) -> None:
        """Have everybody who waits look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _wait_for_ring(self, timeout_us: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout_us / 1e6):
                await waiter
        except TimeoutError:
            return
        finally:
            self._waiters.discard(waiter)
