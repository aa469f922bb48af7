"""Pools of connections: opened with the settings of a database, closed in bounded time."""

import asyncio
from collections.abc import Mapping

import asyncpg

from ductor.journal.postgres.failures import CONNECT_ERRORS, CONNECTION_ERRORS, unavailable
from ductor.journal.postgres.settings import ConnectionSettings


async def _keep(connection: object) -> None:
    """Nothing is left in a session that would have to be reset, so the round trip is saved."""


async def open_pool(
    settings: ConnectionSettings,
    *,
    min_size: int,
    max_size: int,
    statement_cache_size: int,
    server_settings: Mapping[str, str],
) -> asyncpg.Pool:
    """A pool.

    Args:
        settings: of the database.
        min_size, max_size: connections.
        statement_cache_size: prepared statements of a connection, where the settings allow any.
        server_settings: of each session; none are set through a pooler.

    Raises:
        StoreUnavailableError: the database can't be reached.
    """
    try:
        return await asyncpg.create_pool(
            settings.dsn,
            min_size=min_size,
            max_size=max_size,
            timeout=settings.connect_timeout_s,
            command_timeout=settings.command_timeout_s,
            statement_cache_size=statement_cache_size if settings.prepared_statements else 0,
            server_settings=settings.of_session(server_settings),
            reset=_keep,
        )
    except CONNECT_ERRORS as error:
        raise unavailable(error) from error


async def close_pool(pool: asyncpg.Pool, settings: ConnectionSettings) -> None:
    """Disconnect, waiting for what runs as long as a connection may take."""
    try:
        async with asyncio.timeout(settings.connect_timeout_s):
            await pool.close()
    except CONNECTION_ERRORS:
        pool.terminate()
