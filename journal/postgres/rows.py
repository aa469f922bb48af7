"""Rows as the contract's structs."""

from asyncpg import Record

from ductor.journal.store import PublishedDefinition, Transition


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
