"""Checkpoints: how far each generation of a projection has come, who fills it, and why it stands still.

A projector *claims* what it can fill, for a bounded time by the database's clock, so that two hosts don't do the same
work. The claim saves work and no more: what makes sure that no row counts twice is that the checkpoint is locked and
compared in the transaction that changes the model.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import asyncpg
import msgspec

from ductor.journal.records import FeedPosition

Stage = Literal["building", "serving", "retired"]

MAX_ERROR_CHARACTERS = 2_000
"""Characters of the error that are kept with a projection that stands still."""

_COLUMNS = """p.name, p.generation, p.revision, p.stage, p.is_made, p.is_indexed, p.era, p.transaction_id, p.position,
    p.applied_rows, p.skipped_events, p.applied_at_us, p.leader, p.leased_until_us, p.failed_at_us,
    p.failed_run_id::text, p.failed_version, p.error"""

_REGISTER: Final = """
INSERT INTO ductor.eec_projection (name, generation, revision)
SELECT k.name, coalesce(max(p.generation), 0) + 1, k.revision
FROM unnest($1::text[], $2::integer[]) AS k (name, revision) LEFT JOIN ductor.eec_projection p ON p.name = k.name
GROUP BY k.name, k.revision HAVING coalesce(max(p.revision), 0) < k.revision
ON CONFLICT DO NOTHING
"""
_CLAIM: Final = """
UPDATE ductor.eec_projection p SET leader = $3, leased_until_us = ductor.eec_now_us() + $4
FROM (
    SELECT c.name, c.generation FROM ductor.eec_projection c
    JOIN unnest($1::text[], $2::integer[]) AS k (name, revision) ON c.name = k.name
    WHERE (c.revision = k.revision OR c.stage = 'retired')
        AND (c.leader = $3 OR c.leased_until_us < ductor.eec_now_us())
    ORDER BY c.name, c.generation FOR UPDATE OF c SKIP LOCKED
) AS free
WHERE p.name = free.name AND p.generation = free.generation
RETURNING {columns}
""".replace("{columns}", _COLUMNS)
_RELEASE: Final = "UPDATE ductor.eec_projection SET leased_until_us = 0 WHERE leader = $1"
_LOCK: Final = """
SELECT {columns} FROM ductor.eec_projection p
JOIN unnest($1::text[], $2::integer[]) AS k (name, generation) ON p.name = k.name AND p.generation = k.generation
WHERE p.leader = $3 AND p.failed_at_us IS NULL AND p.stage <> 'retired'
ORDER BY p.name, p.generation FOR UPDATE OF p SKIP LOCKED
""".replace("{columns}", _COLUMNS)
_ADVANCE: Final = """
UPDATE ductor.eec_projection p SET era = $3, transaction_id = $4, position = $5, applied_rows = applied_rows + $6,
    skipped_events = skipped_events + $7, applied_at_us = greatest(applied_at_us, $8)
FROM unnest($1::text[], $2::integer[]) AS k (name, generation) WHERE p.name = k.name AND p.generation = k.generation
"""
_FAIL: Final = """
UPDATE ductor.eec_projection SET failed_at_us = ductor.eec_now_us(), failed_run_id = $7::uuid, failed_version = $8,
    error = $9
WHERE name = $1 AND generation = $2 AND leader = $3 AND (era, transaction_id, position) = ($4, $5, $6)
    AND failed_at_us IS NULL
"""
_ALL: Final = "SELECT {columns} FROM ductor.eec_projection p ORDER BY p.name, p.generation".replace(
    "{columns}", _COLUMNS
)
_SERVING: Final = "SELECT generation FROM ductor.eec_projection WHERE name = $1 AND stage = 'serving'"
_RETRY: Final = """
UPDATE ductor.eec_projection SET failed_at_us = NULL, failed_run_id = NULL, failed_version = NULL, error = ''
WHERE name = $1 AND stage <> 'retired' AND failed_at_us IS NOT NULL
"""
_RETIRE_FAILED_BUILDS: Final = """
UPDATE ductor.eec_projection SET stage = 'retired' WHERE name = $1 AND stage = 'building' AND failed_at_us IS NOT NULL
"""
_BUILD: Final = """
INSERT INTO ductor.eec_projection (name, generation, revision)
SELECT name, max(generation) + 1, max(revision) FROM ductor.eec_projection WHERE name = $1 GROUP BY name
HAVING count(*) FILTER (WHERE stage = 'building') = 0
ON CONFLICT DO NOTHING
"""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of one projection.

    Attributes:
        position: the last journal row that is in the model.
        applied_at_us: the newest time of a row that is in it.
        skipped_events: events of newer software that were passed over.
        failed_run_id, failed_version, error: the row at which it stands still, and why; `failed_at_us` is None while it
            does not. No run is named where the tables themselves could not be made.
    """

    name: str
    generation: int
    revision: int
    stage: Stage
    is_made: bool
    is_indexed: bool
    position: FeedPosition
    applied_rows: int
    skipped_events: int
    applied_at_us: int
    leader: str
    leased_until_us: int
    failed_at_us: int | None
    failed_run_id: str | None
    failed_version: int | None
    error: str

    @property
    def key(self) -> tuple[str, int]:
        """Name and generation."""
        return self.name, self.generation

    @property
    def schema(self) -> str:
        """The PostgreSQL schema of its tables."""
        return schema_of(self.name, self.generation)


def schema_of(name: str, generation: int) -> str:
    """The PostgreSQL schema that holds the tables of a generation."""
    return f"ductor_{name}_{generation}"


async def register(connection: asyncpg.Connection, wanted: Sequence[tuple[str, int]]) -> None:
    """Make sure that there is a generation of each name at this revision, or a later one: a new one is to be built."""
    await connection.execute(_REGISTER, [name for name, _ in wanted], [revision for _, revision in wanted])


async def claim(
    connection: asyncpg.Connection, wanted: Sequence[tuple[str, int]], leader: str, lease_ms: int
) -> list[Checkpoint]:
    """Take or renew what nobody else has, of these names and revisions; what is retired, too, to be dropped."""
    rows = await connection.fetch(
        _CLAIM, [name for name, _ in wanted], [revision for _, revision in wanted], leader, lease_ms * 1_000
    )
    return sorted((_checkpoint(row) for row in rows), key=lambda one: one.key)


async def release(connection: asyncpg.Connection, leader: str) -> None:
    """Let others take over at once."""
    await connection.execute(_RELEASE, leader)


async def lock_checkpoints(
    connection: asyncpg.Connection, keys: Sequence[tuple[str, int]], leader: str
) -> dict[tuple[str, int], Checkpoint]:
    """Those that this leader may move on in the transaction, by key, locked until its end."""
    rows = await connection.fetch(_LOCK, [name for name, _ in keys], [generation for _, generation in keys], leader)
    return {one.key: one for one in map(_checkpoint, rows)}


async def advance(
    connection: asyncpg.Connection,
    keys: Sequence[tuple[str, int]],
    to: FeedPosition,
    *,
    rows: int,
    skipped_events: int,
    at_us: int,
) -> None:
    """Move locked checkpoints on."""
    names, generations = [name for name, _ in keys], [generation for _, generation in keys]
    await connection.execute(
        _ADVANCE, names, generations, to.era, to.transaction_id, to.position, rows, skipped_events, at_us
    )


async def record_failure(
    connection: asyncpg.Connection, checkpoint: Checkpoint, run_id: str | None, version: int | None, error: str
) -> None:
    """Note why this one stands still, unless it has moved on meanwhile or is somebody else's."""
    at = checkpoint.position
    text = error.replace("\0", "\N{REPLACEMENT CHARACTER}")[:MAX_ERROR_CHARACTERS]
    await connection.execute(
        _FAIL, *checkpoint.key, checkpoint.leader, at.era, at.transaction_id, at.position, run_id, version, text
    )


async def all_checkpoints(connection: asyncpg.Connection) -> list[Checkpoint]:
    """Every generation of every projection."""
    return [_checkpoint(row) for row in await connection.fetch(_ALL)]


async def serving_generation(connection: asyncpg.Connection, name: str) -> int | None:
    """The generation that is read; None before the first is complete."""
    generation: int | None = await connection.fetchval(_SERVING, name)
    return generation


async def forget_failures(connection: asyncpg.Connection, name: str) -> bool:
    """Let a projection that stands still go on; False where none does."""
    return await connection.execute(_RETRY, name) != "UPDATE 0"


async def begin_rebuild(connection: asyncpg.Connection, name: str) -> bool:
    """Have the model made anew, unless that is under way; a build that failed begins again. Whether one begins."""
    await connection.execute(_RETIRE_FAILED_BUILDS, name)
    return await connection.execute(_BUILD, name) == "INSERT 0 1"


def failure_text(error: BaseException) -> str:
    """An error as it is kept: its type and what it says."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def keys_of(checkpoints: Iterable[Checkpoint]) -> list[tuple[str, int]]:
    """Their keys in order."""
    return sorted(one.key for one in checkpoints)


def _checkpoint(row: asyncpg.Record) -> Checkpoint:
    return Checkpoint(
        name=row[0],
        generation=row[1],
        revision=row[2],
        stage=row[3],
        is_made=row[4],
        is_indexed=row[5],
        position=FeedPosition(row[6], row[7], row[8]),
        applied_rows=row[9],
        skipped_events=row[10],
        applied_at_us=row[11],
        leader=row[12],
        leased_until_us=row[13],
        failed_at_us=row[14],
        failed_run_id=row[15],
        failed_version=row[16],
        error=row[17],
    )
