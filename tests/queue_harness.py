"""Distributed queues under test: a tier, a second client of the same items, and a way to let leases run out at once."""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.items import Lease, QueueItem

Q = "default"
LONG_MS = 60_000


class QueueUnderTest(msgspec.Struct):
    """`queue` and `other` are what two processes have on the same items. Each of `tiers` has bounds of its own."""

    queue: DistributedQueue
    other: DistributedQueue
    expire_leases: Callable[[], Awaitable[None]]
    tiers: int = 1


def item(token: object, tenant: str = "acme", priority: int = 0, queue: str = Q) -> QueueItem:
    """An item whose body tells its token."""
    return QueueItem(token=str(token), queue=queue, tenant=tenant, priority=priority, body=f'"{token}"'.encode())


async def take(
    queue: DistributedQueue,
    max_items: int = 1,
    *,
    wait_ms: int = 0,
    queues: Sequence[str] = (Q,),
    visibility_ms: int = LONG_MS,
) -> list[Lease]:
    """Lease with what most tests want."""
    return await queue.lease(queues, max_items=max_items, visibility_ms=visibility_ms, wait_ms=wait_ms)


def tokens(leases: Sequence[Lease]) -> list[str]:
    """Whose leases they are."""
    return [lease.item.token for lease in leases]
