"""Asking the database whether it answers. What the store says of itself is what its last commits met: a host that has
had nothing to write for a while does not know."""

import asyncio
from typing import TYPE_CHECKING, Final

from ductor.definitions.errors import DuctorError

if TYPE_CHECKING:
    from ductor.host import Host

DATABASE_TIMEOUT_S: Final = 2.0


async def database_problem(host: "Host") -> str:
    """Why the database of a running host does not answer; empty when it does."""
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_S):
            await host.engine.store.now_us()
    except TimeoutError:
        return f"the database did not answer within {DATABASE_TIMEOUT_S:g} s"
    except (DuctorError, OSError) as error:
        return str(error)
    return ""
