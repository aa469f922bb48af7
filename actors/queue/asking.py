"""What is asked of whichever tier has an item, as functions of the tier."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.items import Lease, TokenState


def withdrawal(queue: str, tokens: Sequence[str]) -> Callable[[DistributedQueue], Awaitable[Mapping[str, TokenState]]]:
    """Withdraw these tokens."""
    return lambda tier: tier.withdraw(queue, tokens)


def acknowledgement(tier: DistributedQueue, leases: Sequence[Lease]) -> Awaitable[list[bool]]:
    """Say that these are done."""
    return tier.acknowledge(leases)


def release_call(tier: DistributedQueue, leases: Sequence[Lease]) -> Awaitable[list[bool]]:
    """Give these back."""
    return tier.release(leases)
