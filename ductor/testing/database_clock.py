"""Virtual time in PostgreSQL: the one function by which the database tells the time reads it from a table instead.

Who uses the database in virtual time sets the table before each call. That is exact, because virtual time stands still
while a call is under way.
"""

import asyncio
from typing import Final, Self

import asyncpg

REPLACE_CLOCK: Final = """
CREATE UNLOGGED TABLE ductor.virtual_clock (now_us bigint NOT NULL);
INSERT INTO ductor.virtual_clock VALUES (0);
CREATE OR REPLACE FUNCTION ductor.eec_now_us() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT now_us FROM ductor.virtual_clock $$;
"""


async def replace_clock(dsn: str) -> None:
    """Make a database, which has the schema already, one whose time is set from outside."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(REPLACE_CLOCK)
    finally:
        await connection.close()


class DatabaseClock:
    """Sets the time of a database whose clock was replaced, as an async context manager."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = asyncio.Lock()
        self._now_us = 0

    async def __aenter__(self) -> Self:
        self._connection = await asyncpg.connect(self._dsn)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def set(self, now_us: int) -> None:
        """Let it be this time, in microseconds since the epoch."""
        async with self._lock:
            if now_us != self._now_us:
                await self._connection.execute("UPDATE ductor.virtual_clock SET now_us = $1", now_us)
                self._now_us = now_us
