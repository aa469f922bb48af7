"""What a model holds belongs to its revision: what an older version has filled is made anew by a higher one, and by
nothing else."""

import hashlib
import json
from pathlib import Path

import asyncpg
import msgspec

from ductor.journal.postgres import PostgresStore
from ductor.projections.builtin import builtin_projections
from ductor.projections.runs import RunsProjection
from tests import corpus
from tests.projections.journals import renamed, tables_of, write_journals
from tests.projections.projecting import project, projector

FILE = Path(__file__).with_name("revisions.json")


class Revisions(msgspec.Struct):
    """What the file holds: journals of the corpus, and what each model makes of them, as a hash, with its revision."""

    journals: list[str]
    models: dict[str, tuple[int, str]]


async def test_what_a_model_holds_changes_with_its_revision_only(store: PostgresStore, connection: asyncpg.Connection):
    kept = msgspec.json.decode(FILE.read_bytes(), type=Revisions)
    await write_journals(connection, [renamed(corpus.read(name), place) for place, name in enumerate(kept.journals)])
    await project(store)
    found = {}
    for one in builtin_projections():
        rows = await tables_of(connection, f"ductor_{one.name}_1")
        assert any(rows.values()), f"{one.name} holds nothing"
        text = json.dumps([one.schema, one.indexes, dict(one.views), rows], sort_keys=True)
        found[one.name] = (one.revision, hashlib.sha256(text.encode()).hexdigest()[:16])
    for name, (revision, holds) in found.items():
        before = kept.models[name]
        assert (holds == before[1]) == (revision == before[0]), (
            f"{name}: tables, views and rows change together with `revision`. Raise it, and let {FILE.name} hold"
            f" {msgspec.json.encode(found).decode()}"
        )
    assert found == kept.models


async def test_a_database_of_before_is_made_anew_by_itself(store: PostgresStore, connection: asyncpg.Connection):
    class Before(RunsProjection):
        revision = RunsProjection.revision - 1

        async def apply_batch(self, batch, connection):
            await super().apply_batch(batch, connection)
            await connection.execute("UPDATE run SET words = ''::tsvector")

    await write_journals(connection, [renamed(corpus.read(corpus.names()[0]), 0)])
    await project(store, [Before()])
    count = "SELECT count(*) FROM ductor_runs_{} WHERE words <> ''::tsvector"
    assert await connection.fetchval(count.format("1.run")) == 0
    following = projector(store)
    await following.catch_up()
    await following.stop()
    assert await connection.fetchval(count.format("2.run")) == 1
