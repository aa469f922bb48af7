"""The life of a generation: made, indexed, put in the place of the one that is read, and at last dropped.

```
  building: make ──▶ fill ──▶ index ──▶ fill what came meanwhile ──▶ swap ──▶ serving ──▶ retired ──▶ dropped
```
Each step is one transaction that locks the checkpoint and notes what it did, so a step that was killed has not
happened, and whoever comes next goes on from there. A swap needs the views' locks for an instant; where a report that
takes long holds one, the swap is tried again later, and readers don't queue behind it meanwhile.
"""

from collections.abc import Awaitable, Callable

import asyncpg

from ductor.projections.checkpoints import Checkpoint, lock_checkpoints
from ductor.projections.model import Projection

LOCK_TIMEOUT_MS = 2_000
"""For so long a swap or a drop waits for those who read; then it is put off."""
INDEX_TIMEOUT_S = 6 * 3_600
"""For so long the indexes of a whole model may take."""

Change = Callable[[asyncpg.Connection, Checkpoint, Projection], Awaitable[bool]]
"""A step in the life of a generation, inside a transaction; whether it was done."""


async def make(connection: asyncpg.Connection, checkpoint: Checkpoint, projection: Projection) -> bool:
    """Make the tables. Whether it could be done: not where somebody else has taken over."""
    if not await _lock(connection, checkpoint):
        return False
    await connection.execute(f'CREATE SCHEMA "{checkpoint.schema}"')
    await connection.execute(schema_entry(checkpoint))
    await connection.execute(projection.schema)
    await _note(connection, checkpoint, "is_made = true")
    return True


async def index(connection: asyncpg.Connection, checkpoint: Checkpoint, projection: Projection) -> bool:
    """Make the further indexes of full tables, and have the planner know what is in them. Whether it could be done."""
    if not await _lock(connection, checkpoint):
        return False
    await connection.execute(schema_entry(checkpoint))
    if projection.indexes:
        await connection.execute(projection.indexes, timeout=INDEX_TIMEOUT_S)
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", checkpoint.schema)
    for table in tables:
        await connection.execute(f'ANALYZE "{table[0]}"', timeout=INDEX_TIMEOUT_S)
    await _note(connection, checkpoint, "is_indexed = true")
    return True


async def swap(connection: asyncpg.Connection, checkpoint: Checkpoint, projection: Projection) -> bool:
    """Put a full generation in the place of the one that is read. Whether it could be done."""
    await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
    if not await _lock(connection, checkpoint):
        return False
    await connection.execute(
        "UPDATE ductor.eec_projection SET stage = 'retired', leased_until_us = 0"
        " WHERE name = $1 AND generation < $2 AND stage <> 'retired'",
        *checkpoint.key,
    )
    await _note(connection, checkpoint, "stage = 'serving'")
    await connection.execute(schema_entry(checkpoint))
    for name, query in projection.views.items():
        await _replace_view(connection, name, query)
    return True


async def drop(connection: asyncpg.Connection, checkpoint: Checkpoint) -> None:
    """Drop the tables of a retired generation, and forget it."""
    await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
    await connection.execute(f'DROP SCHEMA IF EXISTS "{checkpoint.schema}" CASCADE')
    await connection.execute(
        "DELETE FROM ductor.eec_projection WHERE name = $1 AND generation = $2 AND stage = 'retired'", *checkpoint.key
    )


def schema_entry(checkpoint: Checkpoint) -> str:
    """SQL after which, until the end of the transaction, tables without a schema are those of this generation."""
    return f'SET LOCAL search_path TO "{checkpoint.schema}", public'


async def _lock(connection: asyncpg.Connection, checkpoint: Checkpoint) -> bool:
    locked = await lock_checkpoints(connection, [checkpoint.key], checkpoint.leader)
    found = locked.get(checkpoint.key)
    return (
        found is not None
        and found.position == checkpoint.position
        and (found.stage, found.is_made, found.is_indexed)
        == (checkpoint.stage, checkpoint.is_made, checkpoint.is_indexed)
    )


async def _note(connection: asyncpg.Connection, checkpoint: Checkpoint, change: str) -> None:
    await connection.execute(
        f"UPDATE ductor.eec_projection SET {change} WHERE name = $1 AND generation = $2",  # noqa: S608 - our own words
        *checkpoint.key,
    )


async def _replace_view(connection: asyncpg.Connection, name: str, query: str) -> None:
    """Replacing keeps comments, grants and views that others made on top; only new columns at the end can be had so."""
    try:
        async with connection.transaction():
            await connection.execute(f"CREATE OR REPLACE VIEW ductor.{name} AS {query}")
    except asyncpg.InvalidTableDefinitionError:
        await connection.execute(f"DROP VIEW ductor.{name}")
        await connection.execute(f"CREATE VIEW ductor.{name} AS {query}")
