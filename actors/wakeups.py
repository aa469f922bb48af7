"""Wakeups between hosts: who learns that there is something for a run that another host owns tells that host.

A wakeup is an item in the owner's system queue, which nobody else leases. It is a hint: what it tells of is in the
database, where the owner's sweeper finds it within one interval if the wakeup is lost. So nothing is repeated here.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Final

from ductor.actors.queue.distributed import MAX_ITEMS_PER_CALL, DistributedQueue
from ductor.actors.queue.errors import QueueItemRefusedError, QueueUnavailableError
from ductor.actors.queue.items import WakeupWork, system_queue, wakeup_item

WAKEUP_LANE: Final = "wakeups"
"""The one lane of system queues: a wakeup does not know its run's tenant, and takes its reader microseconds."""
VISIBILITY_MS: Final = 30_000
LEASE_WAIT_MS: Final = 20_000
UNAVAILABLE_PAUSE_S: Final = 1.0
MAX_UNSENT: Final = 100_000
"""Runs to tell others of that are kept while the queue is slow; beyond it the sweepers of their owners find them."""
MAX_CLEARED: Final = 1_000_000
"""Wakeups of a host that is gone that are removed: as many as its queue may hold."""

_log = logging.getLogger(__name__)


class Wakeups:
    """Sends and receives wakeups. All methods belong to the loop's thread."""

    def __init__(self, queue: DistributedQueue, own_id: str, wake: Callable[[str], None]) -> None:
        """Args: `wake` looks at a run on this host."""
        self._queue, self._own_id, self._wake = queue, own_id, wake
        self._unsent: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._has_unsent = asyncio.Event()
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to send and receive."""
        self._tasks = [asyncio.create_task(self._send_all()), asyncio.create_task(self._receive_all())]

    async def stop(self) -> None:
        """Send what is to be sent, if the queue takes it at once, and end."""
        self._is_stopping = True  # a call that ends just when it is cancelled may come back as if it had not been
        self._has_unsent.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        try:
            while self._unsent:
                await self._send()
        except QueueUnavailableError as error:
            _log.info("%d wakeups are left to sweepers: %s", len(self._unsent), error)

    def send(self, run_id: str, owner: str) -> None:
        """Tell the owner of a run, soon. Telling him twice before that is telling him once."""
        if len(self._unsent) < MAX_UNSENT:
            self._unsent[run_id] = owner
            self._has_unsent.set()

    async def clear(self, host_id: str) -> None:
        """Remove what waits for a host that is gone. Raises QueueUnavailableError."""
        for _ in range(MAX_CLEARED // MAX_ITEMS_PER_CALL):
            leases = await self._queue.lease(
                [system_queue(host_id)], max_items=MAX_ITEMS_PER_CALL, visibility_ms=VISIBILITY_MS
            )
            if not leases:
                return
            await self._queue.acknowledge(leases)

    async def _send_all(self) -> None:
        while not self._is_stopping:
            await self._has_unsent.wait()
            try:
                await self._send()
            except QueueUnavailableError as error:
                _log.debug("%d wakeups are left to sweepers: %s", len(self._unsent), error)
                self._unsent.clear()
                await asyncio.sleep(UNAVAILABLE_PAUSE_S)
            if not self._unsent and not self._is_stopping:
                self._has_unsent.clear()

    async def _send(self) -> None:
        batch = dict(itertools.islice(self._unsent.items(), MAX_ITEMS_PER_CALL))
        for run_id in batch:
            del self._unsent[run_id]
        items = [
            wakeup_item(run_id, WAKEUP_LANE, owner, f"{self._own_id}/{next(self._numbers)}", reissues=False)
            for run_id, owner in batch.items()
        ]
        await self._queue.enqueue(items)

    async def _receive_all(self) -> None:
        queues = [system_queue(self._own_id)]
        while not self._is_stopping:
            try:
                leases = await self._queue.lease(
                    queues, max_items=MAX_ITEMS_PER_CALL, visibility_ms=VISIBILITY_MS, wait_ms=LEASE_WAIT_MS
                )
                for lease in leases:
                    self._take(lease.item.token, lease.item.work)
                if leases:
                    await self._queue.acknowledge(leases)
            except QueueUnavailableError as error:
                _log.debug("wakeups by others come late: %s", error)
                await asyncio.sleep(UNAVAILABLE_PAUSE_S)

    def _take(self, token: str, read: Callable[[], object]) -> None:
        try:
            work = read()
        except QueueItemRefusedError as error:
            _log.error("%s", error)
            return
        if isinstance(work, WakeupWork):
            self._wake(work.run_id)
        else:
            _log.error("a system queue holds something other than wakeups: %s", token)
