"""Leases that nobody waits for any more when they arrive.

A caller may be cancelled while a server hands out items on its behalf. Left alone they would lie until their leases ran
out, and count as delivered. So the call goes on by itself, and what it brings is returned.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from ductor.actors.queue.errors import QueueUnavailableError
from ductor.actors.queue.items import Lease

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class LeaseCalls:
    """The calls for leases under way. `release` returns what came too late."""

    def __init__(self, release: Callable[[Sequence[Lease]], Awaitable[list[bool]]]) -> None:
        self._release = release
        self._returning: set[asyncio.Task[None]] = set()

    async def finish(self) -> None:
        """Wait until nothing is on its way back."""
        while self._returning:
            await asyncio.wait(self._returning)

    async def run(self, call: Coroutine[Any, Any, T], leases_of: Callable[[T], Sequence[Lease]]) -> T:
        """The call's answer. Cancelled at once, whatever the call is doing; its leases are returned when they come."""
        task = asyncio.create_task(call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            returning = asyncio.create_task(self._return(task, leases_of))
            self._returning.add(returning)
            returning.add_done_callback(self._returning.discard)
            raise

    async def _return(self, task: asyncio.Task[T], leases_of: Callable[[T], Sequence[Lease]]) -> None:
        try:
            leases = leases_of(await task)
            if leases:
                await self._release(leases)
        except QueueUnavailableError as error:
            _logger.info("leases that came too late run out by themselves: %s", error.reason)
