"""A projection that ends the transaction which it was given harms nobody else."""

import asyncpg
import pytest

from ductor.journal.postgres import PostgresStore
from ductor.projections.runs import RunsProjection
from tests.projections.projecting import project
from tests.projections.test_projector import Log, checkpoint, rows_of, write_some


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "COMMIT; SELECT 1/0"])
async def test_one_that_ends_its_transaction_stands_still_alone(
    store: PostgresStore, connection: asyncpg.Connection, statement: str
) -> None:
    class Ending(Log):
        name = "ending"

        async def apply_rows(self, rows, connection):
            await super().apply_rows(rows, connection)
            await connection.execute(statement)

    journals = await write_some(connection, 6)
    await project(store, [Log(), Ending(), RunsProjection()])
    found = await checkpoint(connection, "ending")
    assert found["error"].startswith("TransactionEndedError: projection 'ending' has ended the transaction")
    assert str(found["failed_run_id"]) == journals[0].run_id
    assert len(await rows_of(connection, "ductor_log_1")) == sum(len(journal.rows) for journal in journals)
    versions = await connection.fetch("SELECT run_id::text, version FROM ductor.report_runs")
    assert {row[0]: row[1] for row in versions} == {journal.run_id: len(journal.rows) for journal in journals}


async def test_tables_that_end_the_transaction_in_which_they_are_made_stop_one_projection(
    store: PostgresStore, connection: asyncpg.Connection
) -> None:
    class Ending(Log):
        name = "ending"
        schema = f"{Log.schema}; COMMIT"

    journals = await write_some(connection, 2)
    await project(store, [Ending(), Log()])
    assert "has ended the transaction" in (await checkpoint(connection, "ending"))["error"]
    assert len(await rows_of(connection, "ductor_log_1")) == sum(len(journal.rows) for journal in journals)
