"""Rows as the contract's structs."""

import msgspec
from asyncpg import Record

from ductor.journal.records import PublishedDefinition, Transition

FIRST_RUN_ID = "00000000-0000-0000-0000-000000000000"
"""Comes before every run's id: where the first page begins."""

_encode = msgspec.json.Encoder().encode


def transition(row: Record, first: int = 0) -> Transition:
    """A journal row from the columns run_id, version, commit_id, at_us, events, hash, the first of them at `first`."""
    return Transition(
        run_id=row[first],
        version=row[first + 1],
        commit_id=row[first + 2],
        at_us=row[first + 3],
        events=row[first + 4].encode(),
        hash=row[first + 5],
    )


def json_text(value: object) -> str | None:
    """JSON text for a column, or None for a value that is not there."""
    return None if value is None else _encode(value).decode()


def published(row: Record) -> PublishedDefinition:
    """A definition from its columns."""
    return PublishedDefinition(
        tenant=row["tenant"],
        name=row["name"],
        version=row["version"],
        manifest_hash=row["manifest_hash"],
        manifest=row["manifest"].encode(),
        source=row["source"],
        file=row["file"],
        places=row["places"].encode(),
        published_at_us=row["published_at_us"],
        is_published=row["is_published"],
    )
