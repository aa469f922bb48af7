"""Waiting for what another process brings about and of which nothing tells us."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

WAIT_S = 30.0
LOOK_S = 0.01


async def until(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Look until `condition` holds."""
    async with asyncio.timeout(WAIT_S):
        while True:
            found = condition()
            if found if isinstance(found, bool) else await found:
                return
            await asyncio.to_thread(threading.Event().wait, LOOK_S)
