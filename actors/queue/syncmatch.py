"""SyncMatch: hand-over from dispatch to an idle worker inside one process. What finds no worker waits in memory.

Nothing is lost with the process: every item stands in its run's journal, and is dispatched again after a take-over.
"""

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from ductor.actors.queue.protocol import Queued, Taker

MAX_WAITING = 100_000

T = TypeVar("T", bound=Queued)


class SyncMatch(Generic[T]):
    """A `TaskQueue` in memory. Every operation takes constant time, apart from a look at a tenant's priorities.

    Attributes:
        size: how many items wait.
        takers: who waits for an item.
    """

    def __init__(self, limit: int = MAX_WAITING) -> None:
        """Args: `limit` is how many items may wait."""
        self._limit = limit
        self.size = 0
        # Tenant -> priority -> items in order of arrival. Tenants in the order of their turns; empty ones are removed.
        self._tenants: dict[str, dict[int, dict[T, None]]] = {}
        self.takers: deque[Taker[T]] = deque()

    def offer(self, item: T) -> bool:
        """Hand the item to the taker that waited least, whose memory is warm; else queue it. False when full."""
        if self.takers:
            self.takers.pop().accept(item)
            return True
        if self.size >= self._limit:
            return False
        self._tenants.setdefault(item.tenant, {}).setdefault(item.priority, {})[item] = None
        self.size += 1
        return True

    def take(self) -> T | None:
        """The next item: of the tenant whose turn it is, the oldest of the highest priority."""
        if not self._tenants:
            return None
        tenant = next(iter(self._tenants))
        priorities = self._tenants.pop(tenant)
        priority = max(priorities)
        items = priorities[priority]
        item = next(iter(items))
        del items[item]
        if not items:
            del priorities[priority]
        if priorities:
            self._tenants[tenant] = priorities  # behind all others
        self.size -= 1
        return item

    def wait(self, taker: Taker[T]) -> None:
        """Hand the next item that arrives to `taker`."""
        assert not self._tenants, "a taker takes what is there before it waits"
        self.takers.append(taker)

    def withdraw(self, item: T) -> bool:
        """Remove an item that waits; whether it did."""
        priorities = self._tenants.get(item.tenant, {})
        items = priorities.get(item.priority, {})
        if item not in items:
            return False
        del items[item]
        if not items:
            del priorities[item.priority]
        if not priorities:
            del self._tenants[item.tenant]
        self.size -= 1
        return True

    def forget(self, taker: Taker[T]) -> None:
        """Hand nothing more to a taker that waits."""
        self.takers.remove(taker)

    def dismiss(self) -> Iterator[Taker[T]]:
        """Forget the takers that wait, one after another."""
        while self.takers:
            yield self.takers.pop()

    def __len__(self) -> int:
        return self.size
