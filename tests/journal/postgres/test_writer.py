"""x"""
from ductor.journal.postgres import PostgresStore
from tests.journal.postgres.commits import started_runs
from tests.postgres_fixtures import Database


async def test_x(database: Database) -> None:
    async with PostgresStore(database.dsn) as store:
        print(await started_runs(store, 3))
async def test_y(database: Database) -> None:
    async with PostgresStore(database.dsn) as store:
        print(await started_runs(store, 3))
