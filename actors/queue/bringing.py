"""Items of a tier that hands out no more, brought to the one that does."""

import logging
from collections.abc import Sequence
from typing import Final

from ductor.actors.queue.distributed import DistributedQueue, Tier
from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import Lease

BRINGING_MS: Final = 3_000
"""For so long a tier keeps an item for who brings it: if he dies meanwhile, somebody else gets it."""

_logger = logging.getLogger(__name__)


async def bring(leases: Sequence[Lease], source: DistributedQueue, target: Tier) -> bool:
    """Have `target` hold items that were leased from `source` for BRINGING_MS, with the deliveries that they have had.

    What it refuses waits in `source` again. Whether it took any. Raises QueueUnavailableError of `target`; everything
    waits in `source` then, and some of it maybe in both.
    """
    fresh = [lease for lease in leases if lease.delivery == 1]
    delivered = [lease for lease in leases if lease.delivery > 1]
    taken: list[Lease] = []
    try:
        if fresh:
            outcomes = await target.enqueue([lease.item for lease in fresh])
            taken += [lease for lease, outcome in zip(fresh, outcomes, strict=True) if outcome != "refused"]
        if delivered:
            adopted = await target.adopt(delivered, visibility_ms=BRINGING_MS)
            await target.release([lease for lease in adopted if lease is not None])
            taken += delivered
    finally:
        await _settle(leases, taken, source)
    return bool(taken)


async def _settle(leases: Sequence[Lease], taken: Sequence[Lease], source: DistributedQueue) -> None:
    tokens = {lease.item.token for lease in taken}
    left = [lease for lease in leases if lease.item.token not in tokens]
    try:
        if taken:
            await source.acknowledge(taken)
        if left:
            await source.release(left)
    except QueueUnavailableError as error:
        _logger.warning("%d items may be delivered once more by the second tier: %s", len(leases), error.reason)
