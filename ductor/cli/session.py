"""An open database for one command."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ductor.cli.options import DatabaseOptions, OutputFormat, RedisOptions
from ductor.cli.output import progress

if TYPE_CHECKING:
    from ductor.client import Client

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end."""
    return asyncio.run(work)


@asynccontextmanager
async def connected(
    options: DatabaseOptions, output: OutputFormat = "table", redis: RedisOptions | None = None
) -> "AsyncIterator[Client]":
    """A client of the database that the options name.

    Args:
        redis: for commands that look at the queue between processes.
    """
    from ductor.client import Client

    if output != "table":
        # a warning is for people; without any handler Python would print it among the errors
        logging.getLogger("ductor").addHandler(logging.NullHandler())
    client = Client(options.address, tenant=options.tenant, redis=redis.settings if redis is not None else None)
    doing = "starting the embedded PostgreSQL in ./.ductor" if options.address is None else "connecting"
    with progress(doing, output):
        await client.open()
    try:
        yield client
    finally:
        with progress("stopping the embedded PostgreSQL" if options.address is None else "disconnecting", output):
            await client.close()
