"""The schema: migrations give exactly `schema.sql`, are applied once, and never silently changed."""

import asyncio
import os
import re
import subprocess
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from ductor.journal.embedded.identity import find_binaries
from ductor.journal.errors import SchemaVersionError, StoreUnavailableError
from ductor.journal.postgres import PostgresStore, migrate
from ductor.journal.postgres.errors import ChangedMigrationError, UnsupportedServerError
from ductor.journal.postgres.migrations import known_migrations, refuse_old_server
from tests.postgres_fixtures import Database, Server


@pytest.fixture
async def empty(postgres_server: Server) -> AsyncIterator[Database]:
    """A database without the schema."""
    name = f"empty_{os.getpid()}"
    await postgres_server.create_database(name)
    yield Database(postgres_server, name)
    await postgres_server.drop_database(name)


async def run(database: Database, text: str) -> None:
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()


def dump(database: Database) -> str:
    """The schema as PostgreSQL's own tool describes it."""
    program = find_binaries(Path()) / "pg_dump"
    command = [str(program), "--schema-only", "--no-owner", "--dbname", database.dsn]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # newer versions guard a dump by a random word
    return re.sub(r"^\\(un)?restrict .*$", "", text, flags=re.MULTILINE)


async def test_migrations_give_exactly_the_schema_file(database: Database, empty: Database) -> None:
    await run(empty, resources.files("ductor.journal.postgres").joinpath("schema.sql").read_text())
    from_file, from_migrations = dump(empty), dump(database)
    assert "CREATE TABLE ductor.eec_workflow_transition" in from_migrations
    assert from_file == from_migrations


async def test_a_second_time_does_nothing(empty: Database) -> None:
    assert await migrate(empty.dsn) == list(known_migrations())
    assert await migrate(empty.dsn) == []


async def test_hosts_that_migrate_at_once_do_it_once(empty: Database) -> None:
    applied = await asyncio.gather(*(migrate(empty.dsn) for _ in range(5)))
    done = [migration for each in applied for migration in each]
    assert sorted(done, key=lambda migration: migration.number) == list(known_migrations())


async def test_a_store_refuses_a_database_without_the_schema(empty: Database) -> None:
    with pytest.raises(SchemaVersionError, match="ductor db migrate") as refused:
        await PostgresStore(empty.dsn).open()
    assert (refused.value.found, refused.value.needed) == (0, known_migrations()[-1].number)


async def test_a_newer_schema_is_refused(database: Database) -> None:
    await run(database, "INSERT INTO ductor.eec_migration (number, name, checksum) VALUES (9999, 'later', '')")
    for attempt in (PostgresStore(database.dsn).open, lambda: migrate(database.dsn)):
        with pytest.raises(SchemaVersionError, match="upgrade ductor") as refused:
            await attempt()
        assert refused.value.found == 9999


async def test_a_changed_migration_is_refused(database: Database) -> None:
    await run(database, "UPDATE ductor.eec_migration SET checksum = 'other' WHERE number = 1")
    for attempt in (PostgresStore(database.dsn).open, lambda: migrate(database.dsn)):
        with pytest.raises(ChangedMigrationError) as refused:
            await attempt()
        assert (refused.value.number, refused.value.name) == (1, "journal")


async def test_a_migration_that_fails_leaves_nothing(empty: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    first = known_migrations()[0]
    broken = type(first)(first.number, first.name, first.text + "\nSELECT 1/0;")
    monkeypatch.setattr("ductor.journal.postgres.migrations.known_migrations", lambda: (broken,))
    with pytest.raises(asyncpg.DivisionByZeroError):
        await migrate(empty.dsn)
    monkeypatch.undo()
    assert await migrate(empty.dsn) == list(known_migrations())


async def test_migrating_without_a_server_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        await migrate(f"postgresql://postgres@/x?host={tmp_path}")
    with pytest.raises(StoreUnavailableError, match="write its address as postgresql://"):
        await migrate("postgresql://postgres@127.0.0.1:99999/x")


async def test_migrating_without_the_right_to_says_which_it_takes(empty: Database) -> None:
    role = f"reader_{os.getpid()}"
    await run(empty, f"CREATE ROLE {role} LOGIN")
    try:
        parts = urlsplit(empty.dsn)
        host = parts.netloc.rpartition("@")[2]
        with pytest.raises(StoreUnavailableError, match="must own the schema `ductor`"):
            await migrate(urlunsplit(parts._replace(netloc=f"{role}@{host}")))
    finally:
        await run(empty, f"DROP ROLE {role}")


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.number for migration in known_migrations()] == list(range(1, len(known_migrations()) + 1))


def test_old_servers_are_refused() -> None:
    class OldServer:
        def get_server_version(self) -> object:
            return type("Version", (), {"major": 13, "minor": 11})

    with pytest.raises(UnsupportedServerError, match="PostgreSQL 13 is too old; PostgreSQL 14"):
        refuse_old_server(OldServer())  # type: ignore[arg-type]
