"""With 10,000 waiters in one line and 10,000 keys that are held no query of leases reads more than it answers."""

import re
from typing import Any

import asyncpg

from ductor.journal.commit import LeaseWait
from ductor.journal.postgres.batch import make_batch
from ductor.journal.postgres.settings import PLANNER_SETTINGS, WRITER_PLANNER_SETTINGS
from ductor.journal.postgres.statements import QUERIES, Statement, commit_statement, read_named
from tests.journal.postgres.commits import start, tick
from tests.journal.postgres.test_waiting_plans import ROWS, RUN, plans_of_filled_tables, reads_too_much
from tests.postgres_fixtures import Database

SUCCESSOR = "00000000-0000-7000-8000-000000000008"
FILL = f"""
CREATE TEMPORARY TABLE filling AS
SELECT n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS run_id FROM generate_series(1, {ROWS}) AS n;
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    search_attributes)
SELECT run_id, 'acme', 'order', 'm', 'waiting', 1, 1, '{{}}' FROM filling;
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT run_id, 1, gen_random_uuid(), 1, '[]', '' FROM filling;
INSERT INTO ductor.eec_lease (run_id, node, generation, tenant, key, max_holders, since_us, fence)
SELECT run_id, 'print', 0, 'acme', 'line', 5, 1, CASE WHEN n <= 4 THEN n ELSE 0 END FROM filling;
INSERT INTO ductor.eec_lease (run_id, node, generation, tenant, key, max_holders, since_us, fence)
SELECT run_id, '@run', 0, 'acme', 'key ' || n, 1, 1, n FROM filling;
INSERT INTO ductor.eec_lease_look (tenant, key) SELECT 'acme', 'key ' || n FROM filling;
INSERT INTO ductor.eec_lease_look (tenant, key) VALUES ('acme', 'line');
"""

PAGE = {"after_tenant": "acme", "after_key": "line", "after_position": 0, "limit": 10}
CALLS: dict[str, dict[str, Any]] = {
    "grant_leases": {"tenant": "acme", "key": "line", "limit": 10},
    "lease_work": {"after_tenant": "acme", "after_key": "key 5", "limit": 10},
    "leases": {**PAGE, "key": "line", "last_tenant": "acme", "last_key": "line"},
    "leases_of_run": {**PAGE, "run_id": RUN, "key": None, "last_tenant": "acme", "last_key": "line"},
    "lease_line": {"run_id": RUN, "node": "print", "limit": 10},
}
PAGES_OF_A_LOOK_MAX = 80
"""Pages that a look touches, those of the indexes that it writes included; the line alone has more."""


async def test_no_query_reads_more_than_it_answers(database: Database) -> None:
    statements = {name: (QUERIES[name], values) for name, values in CALLS.items()}
    plans = await plans_of_filled_tables(database, PLANNER_SETTINGS, statements, FILL)
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, 20)} == {}


async def test_a_look_at_a_long_line_touches_few_pages(database: Database) -> None:
    """Plans inside a function are not told; what it touches is."""
    statement = QUERIES["grant_leases"]
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute("ANALYZE")
        await connection.execute(FILL)
        await connection.fetch(statement.text, "acme", "key 1", 10)  # reads the function, and plans
        rows = await connection.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {statement.text}", "acme", "line", 10)
    finally:
        await connection.close()
    plan = "\n".join(row[0] for row in rows)
    assert "rows=1.00" in plan or "rows=1 loops" in plan, plan
    pages = re.search(r"shared hit=(\d+)", plan)
    assert pages is not None
    assert int(pages[1]) < PAGES_OF_A_LOOK_MAX, plan


async def test_a_key_that_few_hold_among_many_is_found(database: Database) -> None:
    values = {**CALLS["leases"], "after_key": "key 77", "key": "key 77", "last_key": "key 77"}
    plans = await plans_of_filled_tables(database, PLANNER_SETTINGS, {"leases": (QUERIES["leases"], values)}, FILL)
    assert not reads_too_much(plans["leases"], 2)


async def test_no_commit_reads_more_than_it_writes(database: Database) -> None:
    wait = LeaseWait(node="other", generation=0, key="line", limit=5)
    batches = {
        "a tick": make_batch([tick(RUN, 2, leases=(wait,), leases_gone=("print",))]),
        "the last tick": make_batch([tick(RUN, 2, forwards_to=SUCCESSOR)]),
        "a start": make_batch([start(leases=(wait,))]),
    }
    statements: dict[str, tuple[Statement, dict[str, Any]]] = {
        name: (commit_statement(batch.parts), batch.columns) for name, batch in batches.items()
    }
    plans = await plans_of_filled_tables(database, WRITER_PLANNER_SETTINGS, statements, FILL)
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, 2)} == {}


def test_every_query_of_the_file_is_looked_at() -> None:
    assert set(read_named("leases.sql")) == set(CALLS)
