"""With 10,000 parked digests and windows no query of theirs reads more than it answers."""

from typing import Any

from ductor.journal.digest_store import DigestWait
from ductor.journal.postgres.batch import make_batch
from ductor.journal.postgres.settings import PLANNER_SETTINGS, WRITER_PLANNER_SETTINGS
from ductor.journal.postgres.statements import QUERIES, Statement, commit_statement, read_named
from tests.journal.postgres.commits import start, tick
from tests.journal.postgres.test_waiting_plans import ROWS, RUN, plans_of_filled_tables, reads_too_much
from tests.postgres_fixtures import Database

FILL = f"""
CREATE TEMPORARY TABLE filling AS
SELECT n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS run_id FROM generate_series(1, {ROWS}) AS n;
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    search_attributes)
SELECT run_id, 'acme', 'order', 'm', 'waiting', 1, 1, '{{}}' FROM filling;
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT run_id, 1, gen_random_uuid(), 1, '[]', '' FROM filling;
INSERT INTO ductor.eec_digest_wait (run_id, node, generation, key, item, duration_ms, max_items, is_joined)
SELECT run_id, 'bundle', 0, n::text, '1', 1, 10, n % 100 <> 0 FROM filling;
INSERT INTO ductor.eec_digest_window (tenant, definition, node, key, leader_run_id, leader_generation, closes_at_us,
    max_items, item_count, item_bytes)
SELECT 'acme', 'order', 'bundle', n::text, CASE WHEN n % 10 <> 0 THEN run_id END, 0, n, 10, 1, 1 FROM filling;
INSERT INTO ductor.eec_digest_item (tenant, definition, node, key, run_id, generation, item)
SELECT 'acme', 'order', 'bundle', n::text, run_id, 0, '1' FROM filling;
"""

WINDOW = {"tenant": "acme", "definition": "order", "node": "bundle", "key": "7"}
CALLS: dict[str, dict[str, Any]] = {
    "unjoined_digests": {"run_ids": [RUN], "limit": 10},
    "digest_work": {"now_us": ROWS, "limit": 10},
    "digest_window": WINDOW,
    "lock_digest_waits": {"run_ids": [RUN], "node": "bundle"},
    "mark_digests_joined": {"run_ids": [RUN], "node": "bundle"},
    "remove_digest_leader": {**WINDOW, "run_id": RUN, "generation": 0},
    "take_digest_items": {**WINDOW, "key": "8"},
    "tell_digests": {
        "node": "bundle", "run_ids": [RUN], "message_ids": ["digest:bundle:0"], "payloads": ["1"],
        "payload_refs": [None], "body_run_ids": [RUN], "hashes": ["h"], "bodies": ["1"],
    },
    "remove_digest_window": {**WINDOW, "key": "9"},
    "write_digest_window": {
        **WINDOW, "leader_run_id": RUN, "leader_generation": 0, "closes_at_us": 1, "max_items": 1, "item_count": 1,
        "item_bytes": 1,
    },
    "add_digest_items": {**WINDOW, "run_ids": [RUN], "generations": [0], "items": ["1"]},
}  # fmt: skip
EXCEPTED = {"lock_digest_window"}
"""It touches no table."""


async def test_no_query_reads_more_than_it_answers(database: Database) -> None:
    statements = {name: (QUERIES[name], values) for name, values in CALLS.items()}
    plans = await plans_of_filled_tables(database, PLANNER_SETTINGS, statements, FILL)
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, 20)} == {}


async def test_no_commit_reads_more_than_it_writes(database: Database) -> None:
    wait = DigestWait(node="other", generation=0, key="k", item=1, duration_ms=1, max_items=1)
    batches = {
        "a tick": make_batch([tick(RUN, 2, digests=(wait,), digests_gone=("bundle",))]),
        "a start": make_batch([start(digests=(wait,))]),
    }
    statements: dict[str, tuple[Statement, dict[str, Any]]] = {
        name: (commit_statement(batch.parts), batch.columns) for name, batch in batches.items()
    }
    plans = await plans_of_filled_tables(database, WRITER_PLANNER_SETTINGS, statements, FILL)
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, 2)} == {}


def test_every_query_of_the_file_is_looked_at() -> None:
    assert set(read_named("digests.sql")) - EXCEPTED == set(CALLS)
