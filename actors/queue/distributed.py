"""The queue between processes: what every tier offers, and the rules that they share.

Delivery
- At least once. A lease runs out when nobody renews it, and the item goes to somebody else. While a lease holds, nobody
  else gets the item.
- After MAX_DELIVERIES without acknowledgement an item is set aside, visibly; its lane goes on.
- A token is held once by a tier, queued, leased or set aside: a second item of the same token is dropped.
- An acknowledgement counts even when its lease has run out: what is done is done, wherever the item stands now.

Order
- Queues are served in the order in which the caller names them: a host that names its system queue first takes wakeups
  before tasks.
- In a queue every tenant has a lane. Lanes are served by weighted fair queueing (see `fairness`), which counts work in
  flight as well as work dispatched.
- In a lane the higher priority goes first, then the earlier arrival. A redelivered item has its old place.

Bounds
- `max_items`, the number of tokens in a call, the items of a queue, a lane's cap and rate are limited; what does not
  fit is refused or waits, and is never dropped in silence.
- A caller that waits is woken at once by an arrival, a freed slot, a lease that ran out or a rate that allows it again
  (PostgreSQL: within its pause between polls where the cause lies in another process).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from ductor.actors.queue.items import (
    DeadLetter,
    EnqueueOutcome,
    LanePolicy,
    Lease,
    QueueDepth,
    QueueDisturbance,
    QueueHealth,
    QueueItem,
    QueuePolicy,
    TokenState,
)

MAX_DELIVERIES: Final = 5
"""Deliveries that end without a word before an item counts as poisoned."""
MAX_ITEMS_PER_CALL: Final = 256
"""Items, leases or tokens in one call; callers with more call again."""
MAX_QUEUES_PER_LEASE: Final = 16
MAX_LANES_LISTED: Final = 1_000
MAX_DEAD_LETTERS: Final = 10_000
"""Per queue and tier; beyond it the oldest is let go. Its attempt still stands in its run's journal."""
MAX_EXPIRED_PER_LEASE: Final = 64
"""Leases that ran out and are taken back in one call of `lease`."""
MAX_VISIBILITY_MS: Final = 24 * 3_600_000
MAX_WAIT_MS: Final = 60_000


OnDisturbance = Callable[[QueueDisturbance], None]
"""Told, on the event loop, that a tier may have lost items or can't serve them; must not block."""


class DistributedQueue(Protocol):
    """A tier, or several behind one face. Every method may raise QueueUnavailableError."""

    async def open(self) -> None:
        """Connect. A tier that can't be reached makes no error where another one can serve."""
        ...

    async def close(self) -> None:
        """Disconnect. Callers that wait get what they would get if nothing came."""
        ...

    async def enqueue(self, items: Sequence[QueueItem]) -> list[EnqueueOutcome]:
        """Hold the items from now on, and say what became of each. Repeating a call is harmless."""
        ...

    async def lease(
        self, queues: Sequence[str], *, max_items: int, visibility_ms: int, wait_ms: int = 0
    ) -> list[Lease]:
        """Take up to `max_items` items for `visibility_ms`; a queue is asked when those before it have no more.

        Without any, wait up to `wait_ms` for the first.
        """
        ...

    async def renew(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[bool]:
        """Hold leases for `visibility_ms` from now. False: lost, because it ran out or the item was withdrawn."""
        ...

    async def acknowledge(self, leases: Sequence[Lease]) -> list[bool]:
        """The work is done: remove the items. False: the lease had been lost; the item is gone all the same."""
        ...

    async def release(self, leases: Sequence[Lease]) -> list[bool]:
        """Return items undone, for anybody; the delivery does not count. False: the lease had been lost."""
        ...

    async def withdraw(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        """Remove items, and say how those that were held stood. Who has one leased learns it by renewing."""
        ...

    async def held(self, queue: str, tokens: Sequence[str]) -> Mapping[str, TokenState]:
        """Those of the tokens that are held, and how they stand."""
        ...

    async def depth(self, queue: str) -> QueueDepth:
        """How much waits, and for how long."""
        ...

    async def dead_letters(self, queue: str, *, limit: int = MAX_ITEMS_PER_CALL) -> list[DeadLetter]:
        """Items set aside, the latest first."""
        ...

    async def replay(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Queue items again that were set aside, with their deliveries forgotten. False: not set aside."""
        ...

    async def drop(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        """Forget items that were set aside. False: not set aside."""
        ...

    async def set_lane_policy(self, queue: str, tenant: str, policy: LanePolicy) -> None:
        """How the queue serves a tenant from now on."""
        ...

    async def set_queue_policy(self, queue: str, policy: QueuePolicy) -> None:
        """The queue's bounds from now on."""
        ...

    async def health(self) -> QueueHealth:
        """Whether it serves. Never raises."""
        ...


class Tier(DistributedQueue, Protocol):
    """A queue that keeps items itself."""

    async def adopt(self, leases: Sequence[Lease], *, visibility_ms: int) -> list[Lease | None]:
        """Hold as leased what another tier has handed out, whatever caps and rates say: the work is under way.

        A lease of this tier for each; None where the item is leased or set aside here already.
        """
        ...


def check_lease_arguments(queues: Sequence[str], max_items: int, visibility_ms: int, wait_ms: int) -> None:
    """Raise ValueError for arguments beyond the bounds."""
    if not 1 <= len(queues) <= MAX_QUEUES_PER_LEASE:
        raise ValueError(f"{len(queues)} queues in one call; 1 to {MAX_QUEUES_PER_LEASE} are allowed")
    if not 1 <= max_items <= MAX_ITEMS_PER_CALL:
        raise ValueError(f"max_items is {max_items}; 1 to {MAX_ITEMS_PER_CALL} are allowed")
    if not 1 <= visibility_ms <= MAX_VISIBILITY_MS:
        raise ValueError(f"visibility_ms is {visibility_ms}; 1 to {MAX_VISIBILITY_MS} are allowed")
    if not 0 <= wait_ms <= MAX_WAIT_MS:
        raise ValueError(f"wait_ms is {wait_ms}; 0 to {MAX_WAIT_MS} are allowed")


def check_count(count: int) -> None:
    """Raise ValueError for more items, leases or tokens than one call may have."""
    if count > MAX_ITEMS_PER_CALL:
        raise ValueError(f"{count} items in one call; {MAX_ITEMS_PER_CALL} are allowed")
