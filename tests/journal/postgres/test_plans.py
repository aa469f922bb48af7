"""Plans made while tables were tiny stay right when they are full: every look-up by index, nothing scanned."""

import re
from itertools import combinations
from typing import Any

import asyncpg
import pytest

from ductor.journal.commit import Appended, HeadUpdate, Payload, TimerUpdate
from ductor.journal.postgres import PostgresStore
from ductor.journal.postgres.settings import PLANNER_SETTINGS
from ductor.journal.postgres.statements import QUERIES, RESOLVE_LOSERS, heads_statement
from tests.journal.postgres.commits import answered, start, started_runs, tick
from tests.journal.waiting import until
from tests.postgres_fixtures import Database

FILLED_RUNS = 20_000
ROUNDS = 10
RUNS = 10

FILL = f"""
CREATE TEMPORARY TABLE filling AS SELECT gen_random_uuid() AS run_id FROM generate_series(1, {FILLED_RUNS});
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    search_attributes)
SELECT run_id, 'acme', 'order', 'm', 'completed', 1, 1, '{{}}' FROM filling;
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT run_id, version, gen_random_uuid(), 1, '[]', '' FROM filling, generate_series(1, 3) AS version;
INSERT INTO ductor.eec_workflow_timer (run_id, due_at_us) SELECT run_id, NULL FROM filling;
INSERT INTO ductor.eec_payload (run_id, hash, body) SELECT run_id, 'h', '1' FROM filling;
INSERT INTO ductor.eec_start_key (tenant, definition, key, run_id) SELECT 'acme', 'order', run_id, run_id FROM filling;
"""
# the server counts what a backend has read when the backend ends
SCANNED = "SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relname LIKE 'eec_workflow%'"
LOOKED_UP = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = 'ductor'"


async def rows_read_by_commits_and_loads(database: Database) -> tuple[int, int]:
    """How many rows a store reads that was at work before the tables filled up: by scans, and by index."""
    connection = await asyncpg.connect(database.dsn)

    async def is_alone() -> bool:
        await connection.execute("SELECT pg_stat_clear_snapshot()")
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        return bool(await connection.fetchval(query) == 1)

    async with PostgresStore(database.dsn) as first_store:
        runs = await started_runs(first_store, RUNS)
        await commit_and_load(first_store, runs, 2)
    # the planner knows that the tables are tiny, and nothing tells it when they no longer are: autovacuum is off
    await connection.execute("ANALYZE")
    await until(is_alone)
    await connection.execute("SELECT pg_stat_reset()")
    async with PostgresStore(database.dsn) as store:
        for version in range(3, 3 + ROUNDS):
            await commit_and_load(store, runs, version)
        await connection.execute(FILL)
        for version in range(3 + ROUNDS, 3 + 2 * ROUNDS):
            await commit_and_load(store, runs, version)
    await until(is_alone)
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    rows = await connection.fetchval(SCANNED), await connection.fetchval(LOOKED_UP)
    await connection.close()
    return rows


async def commit_and_load(store: PostgresStore, runs: list[str], version: int) -> None:
    """One round of everything in the hot path."""
    parts: dict[str, Any] = {
        "head": HeadUpdate(status="running"),
        "timer": TimerUpdate(5),
        "payloads": (Payload(f"{version}", b"1"),),
    }
    await answered(store, *(tick(run_id, version, **parts) for run_id in runs[: RUNS // 2]), start(key=f"k{version}"))
    await answered(store, *(tick(run_id, version) for run_id in runs[RUNS // 2 :]))
    assert await answered(store, tick(runs[0], version + 1_000)) != [Appended(version + 1_000)]
    assert all([await store.load(run_id) for run_id in runs[:2]])


async def test_nothing_is_scanned_before_or_after_the_tables_have_filled_up(database: Database) -> None:
    scanned, looked_up = await rows_read_by_commits_and_loads(database)
    assert scanned == 0
    # a round: a few look-ups for each commit, and two loads of the 2 * ROUNDS rows and payloads that a run has at most
    assert looked_up < 2 * ROUNDS * (RUNS * 10 + 2 * 4 * ROUNDS)


async def test_without_the_planner_settings_it_would_be(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows that the test above can fail: plans made for tiny tables scan them."""
    monkeypatch.setattr(
        "ductor.journal.postgres.lane.WRITER_PLANNER_SETTINGS", {"plan_cache_mode": "force_generic_plan"}
    )
    scanned, _ = await rows_read_by_commits_and_loads(database)
    assert scanned > 0


CONDITIONS = ("tenant", "definition", "statuses", "before_run_id")
COMBINATIONS = [
    frozenset(conditions) for size in range(len(CONDITIONS) + 1) for conditions in combinations(CONDITIONS, size)
]
STATEMENTS = {
    **QUERIES,
    "resolve_losers": RESOLVE_LOSERS,
    **{
        f"heads by {', '.join(sorted(conditions)) or 'nothing'}": heads_statement(conditions)
        for conditions in COMBINATIONS
    },
}


async def test_every_query_on_runs_has_an_index_to_go_by(database: Database) -> None:
    generic = {**PLANNER_SETTINGS, "plan_cache_mode": "force_generic_plan"}
    connection = await asyncpg.connect(database.dsn, server_settings=generic)
    try:
        for name, statement in STATEMENTS.items():
            await connection.execute(f"PREPARE explained AS {statement.text}")
            values = f"({', '.join(['NULL'] * len(statement.parameters))})" if statement.parameters else ""
            plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE explained {values}"))
            assert not re.search(r"Seq Scan on eec_(workflow|payload|start_key)", plan), (name, plan)
            await connection.execute("DEALLOCATE explained")
    finally:
        await connection.close()
