"""Looking for bulk controls costs nothing that grows with those that are finished, or with the runs of others."""

import re

import asyncpg
import pytest

from ductor.journal.postgres.settings import PLANNER_SETTINGS
from ductor.journal.postgres.statements import QUERIES
from tests.postgres_fixtures import Database

FILL = """
INSERT INTO ductor.eec_bulk_control
    (bulk_id, tenant, kind, by, reason, requested_at_us, requested, advanced_at_us, finished_at_us)
SELECT gen_random_uuid(), 'tenant ' || n % 50, 'pause', '', '', 1, 1, n, n FROM generate_series(1, 10000) AS n
"""
QUERIES_OF_BULK_CONTROLS = ("add_bulk_control", "bulk_control", "next_bulk_control", "advance_bulk_control")


@pytest.mark.parametrize("is_full", [False, True])
async def test_every_query_on_bulk_controls_goes_by_an_index(database: Database, is_full: bool):
    generic = {**PLANNER_SETTINGS, "plan_cache_mode": "force_generic_plan"}
    connection = await asyncpg.connect(database.dsn, server_settings=generic)
    try:
        if is_full:
            await connection.execute(FILL)
            await connection.execute("ANALYZE ductor.eec_bulk_control")
        for name in QUERIES_OF_BULK_CONTROLS:
            statement = QUERIES[name]
            await connection.execute(f"PREPARE explained AS {statement.text}")
            values = f"({', '.join(['NULL'] * len(statement.parameters))})" if statement.parameters else ""
            plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE explained {values}"))
            assert not re.search(r"Seq Scan on eec_", plan), (name, plan)
            await connection.execute("DEALLOCATE explained")
    finally:
        await connection.close()


async def test_finished_ones_are_not_read_to_find_the_next(database: Database):
    connection = await asyncpg.connect(database.dsn, server_settings=PLANNER_SETTINGS)
    try:
        await connection.execute(FILL)
        await connection.execute(
            "INSERT INTO ductor.eec_bulk_control (bulk_id, tenant, kind, by, reason, requested_at_us)"
            " VALUES (gen_random_uuid(), 'tenant 7', 'pause', '', '', 1)"
        )
        plan = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {QUERIES['next_bulk_control'].text}")
        text = "\n".join(row[0] for row in plan)
        (buffers,) = re.findall(r"shared hit=(\d+)", text.split("Planning")[0])[:1]
        assert int(buffers) < 20, text
    finally:
        await connection.close()
