"""What is known of the runs of a batch."""

from collections.abc import Iterable

import asyncpg
import msgspec

from ductor.definitions.values import JsonObject
from ductor.journal.records import Head

_READ = """
SELECT run_id::text, tenant, definition, manifest_hash, status, started_at_us, updated_at_us, ended_at_us, key,
    parent_run_id::text, root_run_id::text, error_type, search_attributes::text
FROM ductor.eec_workflow_run WHERE run_id = ANY ($1::uuid[])
"""
_EMPTY = "{}"
_ATTRIBUTES: msgspec.json.Decoder[JsonObject] = msgspec.json.Decoder(JsonObject)


async def read_heads(connection: asyncpg.Connection, run_ids: Iterable[str]) -> dict[str, Head]:
    """The heads of these runs, by id."""
    return {row[0]: _head(row) for row in await connection.fetch(_READ, list(dict.fromkeys(run_ids)))}


def _head(row: asyncpg.Record) -> Head:
    return Head(
        run_id=row[0],
        tenant=row[1],
        definition=row[2],
        manifest_hash=row[3],
        status=row[4],
        started_at_us=row[5],
        updated_at_us=row[6],
        ended_at_us=row[7],
        key=row[8],
        parent_run_id=row[9],
        root_run_id=row[10],
        error_type=row[11],
        search_attributes={} if row[12] == _EMPTY else _ATTRIBUTES.decode(row[12]),
    )
