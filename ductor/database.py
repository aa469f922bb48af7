"""Where runs are kept: an address, a store, or PostgreSQL out of the wheel when nothing is said."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ductor.journal.store import Store

EMBEDDED_DIRECTORY: Final = Path(".ductor/postgres")


@asynccontextmanager
async def open_database(database: str | Store | None, directory: Path | None = None) -> AsyncIterator[Store]:
    """Open the store that `database` names, and close it at the end.

    Args:
        database: a PostgreSQL address; a store, which whoever made it opens and closes; or None for an embedded server,
            shared with every process that uses the same directory, whose schema is brought up to date.
        directory: of the embedded server, `.ductor/postgres` unless given.

    Raises:
        SchemaVersionError: the database at an address needs `ductor db migrate`.
        StoreUnavailableError: it can't be reached.
        EmbeddedPostgresError: the embedded server can't be started.
    """
    if database is not None and not isinstance(database, str):
        yield database
        return
    from ductor.journal.postgres import PostgresStore, migrate  # noqa: PLC0415 - a driver that stores given don't need

    if isinstance(database, str):
        async with PostgresStore(database) as store:
            yield store
        return
    from ductor.journal.embedded import EmbeddedPostgres  # noqa: PLC0415

    async with EmbeddedPostgres(directory or EMBEDDED_DIRECTORY) as server:
        dsn = server.dsn()
        await migrate(dsn)
        async with PostgresStore(dsn) as store:
            yield store
