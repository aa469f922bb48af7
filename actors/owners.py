"""Wakeups from processes that carry out no runs themselves: they look up who owns what, and tell the owner."""

import asyncio
import itertools
from collections.abc import Iterable
from typing import Final

from ductor.actors.partitions import PartitionMap
from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.items import wakeup_item
from ductor.actors.sweeper import HOST_ALIVE_MS
from ductor.actors.wakeups import WAKEUP_LANE
from ductor.journal.store import Store

HOSTS_KNOWN_S: Final = 1.0
"""For so long the hosts are taken from memory. A wakeup for one that is gone, or owns the run no more, is lost: the
owner's sweeper finds what there is."""


class OwnerWakeups:
    """Tells the hosts that own runs that there is something for these. All methods belong to the loop's thread."""

    def __init__(self, store: Store, queue: DistributedQueue, own_id: str) -> None:
        """Args: `own_id` names this process, and tells its wakeups from those of others."""
        self._store, self._queue, self._own_id = store, queue, own_id
        self._partitions = PartitionMap(own_id, [])
        self._known_until_s = float("-inf")
        self._numbers = itertools.count(1)

    async def wake(self, run_ids: Iterable[str]) -> None:
        """Tell the owners. Raises QueueUnavailableError and StoreUnavailableError; sweepers find the runs then."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._known_until_s:
            hosts = await self._store.hosts(alive_within_ms=HOST_ALIVE_MS)
            self._partitions = PartitionMap(self._own_id, [host.host_id for host in hosts if not host.is_draining])
            self._known_until_s = now_s + HOSTS_KNOWN_S
        if not self._partitions.hosts:
            return
        items = [
            wakeup_item(
                run_id,
                WAKEUP_LANE,
                self._partitions.owner(run_id),
                f"{self._own_id}/{next(self._numbers)}",
                reissues=False,
            )
            for run_id in run_ids
        ]
        for start in range(0, len(items), MAX_ITEMS_PER_CALL):
            await self._queue.enqueue(items[start : start + MAX_ITEMS_PER_CALL])
