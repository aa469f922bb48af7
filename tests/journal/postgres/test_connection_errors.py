"""Whatever the driver raises over a connection that breaks, callers hear that the database can't serve."""

import asyncpg
import pytest

from ductor.journal.errors import StoreUnavailableError
from ductor.journal.postgres.database import Database as StoreDatabase
from ductor.journal.postgres.settings import ConnectionSettings
from tests.postgres_fixtures import Database

CUT_IN_MID_ANSWER = asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")


@pytest.mark.parametrize(
    "error",
    [CUT_IN_MID_ANSWER, asyncpg.InterfaceError("closed"), asyncpg.AdminShutdownError("restart"), OSError("reset")],
)
async def test_a_transaction_whose_connection_breaks_is_unavailable(database: Database, error: Exception):
    opened = StoreDatabase(ConnectionSettings(dsn=database.dsn))
    await opened.open()
    try:
        with pytest.raises(StoreUnavailableError):
            async with opened.transaction():
                raise error
        async with opened.transaction() as connection:
            assert await connection.fetchval("SELECT 1") == 1
    finally:
        await opened.close()
