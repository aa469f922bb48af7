"""The schema, brought up to date by numbered SQL files.

`migrations/NNNN_name.sql` are applied in order, each in a transaction of its own under one advisory lock that ends
with the transaction, and recorded with a checksum. Two hosts that migrate at once do it once. `schema.sql` is what
they add up to; a test proves it. A released file is never changed.
"""

import re
from functools import cache
from hashlib import sha256
from importlib import resources

import asyncpg
import msgspec

from ductor.journal.errors import SchemaVersionError
from ductor.journal.postgres.errors import ChangedMigrationError, UnsupportedServerError
from ductor.journal.postgres.failures import CONNECT_ERRORS, CONNECTION_ERRORS, classify, unavailable

OLDEST_SERVER = 140_000
# any number that nobody else takes as a key: "ductor" in ASCII
ADVISORY_LOCK = int.from_bytes(b"ductor", "big")

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_LEDGER = """
CREATE TABLE ductor.eec_migration (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE ductor.eec_migration IS 'Migrations applied to this schema.';
"""


class Migration(msgspec.Struct, frozen=True):
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text.encode()).hexdigest()


@cache
def known_migrations() -> tuple[Migration, ...]:
    """The migrations of this version, in order."""
    found = []
    for file in resources.files(__package__).joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


async def migrate(dsn: str) -> list[Migration]:
    """Bring the schema up to date and return what was applied.

    Raises SchemaVersionError for a schema newer than this version, ChangedMigrationError, UnsupportedServerError, and
    StoreUnavailableError.
    """
    try:
        # no statement cache: a pooler may stand between
        connection: asyncpg.Connection = await asyncpg.connect(dsn, statement_cache_size=0)
    except CONNECT_ERRORS as error:
        raise unavailable(error) from error
    try:
        refuse_old_server(connection)
        return [migration for migration in known_migrations() if await _apply(connection, migration)]
    except CONNECTION_ERRORS as error:
        if classify(error) != "unavailable":
            raise  # a migration with a defect
        raise unavailable(error) from error
    finally:
        await connection.close()


async def check_schema(connection: asyncpg.Connection) -> None:
    """Raise SchemaVersionError or ChangedMigrationError unless the schema is the one of this version.

    To be called inside a transaction, for the sake of poolers.
    """
    refuse_old_server(connection)
    needed = known_migrations()[-1].number
    applied = await _applied(connection)
    if max(applied, default=0) < needed:
        raise SchemaVersionError(max(applied, default=0), needed)
    _refuse_changed(applied)


def refuse_old_server(connection: asyncpg.Connection) -> None:
    """Raise UnsupportedServerError for a server older than ductor supports."""
    version = connection.get_server_version()
    found = version.major * 10_000 + version.minor
    if found < OLDEST_SERVER:
        raise UnsupportedServerError(found, OLDEST_SERVER)


async def lock(connection: asyncpg.Connection) -> None:
    """Be the only one to change the schema until the end of the transaction."""
    await connection.execute(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")


async def _apply(connection: asyncpg.Connection, migration: Migration) -> bool:
    async with connection.transaction():
        await lock(connection)
        if not await connection.fetchval("SELECT to_regclass('ductor.eec_migration') IS NOT NULL"):
            if not await connection.fetchval("SELECT to_regnamespace('ductor') IS NOT NULL"):
                await connection.execute("CREATE SCHEMA ductor")
            await connection.execute(_LEDGER)
        applied = await _applied(connection)
        _refuse_changed(applied)
        if migration.number in applied:
            return False
        await connection.execute(migration.text)
        await connection.execute(
            "INSERT INTO ductor.eec_migration (number, name, checksum) VALUES ($1, $2, $3)",
            migration.number,
            migration.name,
            migration.checksum,
        )
        return True


async def _applied(connection: asyncpg.Connection) -> dict[int, str]:
    """Checksums of applied migrations by number."""
    if not await connection.fetchval("SELECT to_regclass('ductor.eec_migration') IS NOT NULL"):
        return {}
    rows = await connection.fetch("SELECT number, checksum FROM ductor.eec_migration")
    return {row["number"]: row["checksum"] for row in rows}


def _refuse_changed(applied: dict[int, str]) -> None:
    known = known_migrations()
    newest = max(applied, default=0)
    if newest > known[-1].number:
        raise SchemaVersionError(newest, known[-1].number)
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise ChangedMigrationError(migration.number, migration.name)
