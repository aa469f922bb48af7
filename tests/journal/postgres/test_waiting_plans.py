"""With 10,000 waits, messages, events and inbox rows no query of the hot path reads more than it answers.

Plans are made while the tables are tiny, as on a host that grows; statistics come too late or never: autovacuum is off.
"""

import re
from typing import Any

import asyncpg

from ductor.journal.commit import BusEvent, EventWait, InboxItem, MessageDisposition, SentMessage
from ductor.journal.events import Message
from ductor.journal.postgres.batch import make_batch
from ductor.journal.postgres.settings import PLANNER_SETTINGS, WRITER_PLANNER_SETTINGS
from ductor.journal.postgres.statements import QUERIES, Statement, commit_statement, read_named
from tests.journal.postgres.commits import start, tick
from tests.postgres_fixtures import Database

ROWS = 10_000
RUN = "00000000-0000-7000-8000-000000000007"

FILL = f"""
CREATE TEMPORARY TABLE filling AS
SELECT n, ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS run_id FROM generate_series(1, {ROWS}) AS n;
INSERT INTO ductor.eec_workflow_run (run_id, tenant, definition, manifest_hash, status, started_at_us, updated_at_us,
    search_attributes)
SELECT run_id, 'acme', 'definition ' || n % 5, 'm', CASE WHEN n % 2 = 0 THEN 'waiting' ELSE 'completed' END, 1, 1,
    '{{}}'
FROM filling;
INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)
SELECT run_id, 1, gen_random_uuid(), 1, '[]', '' FROM filling;
INSERT INTO ductor.eec_workflow_signal (run_id, message_id, kind, name, node, by, at_us, disposition)
SELECT run_id, 'm' || n, 'signal', 'paid', '', '', 1, CASE WHEN n % 100 = 0 THEN '' ELSE 'consumed' END FROM filling;
INSERT INTO ductor.eec_event_wait (run_id, node, index, tenant, name, since_us, key_path, key_value, is_scanned)
SELECT run_id, 'listen', 0, 'acme', 'shipped', 1, 'payload.order_id', n::text, true FROM filling;
INSERT INTO ductor.eec_event (tenant, event_id, name, payload, published_at_us, source, is_matched)
SELECT 'acme', 'e' || n, 'shipped', '1', n, '', n % 100 <> 0 FROM filling;
INSERT INTO ductor.eec_workflow_inbox (run_id, node, tenant, kind, title, people, status, since_us)
SELECT run_id, 'review', 'acme', 'approval', '', '[]', 'open', 1 FROM filling;
INSERT INTO ductor.eec_workflow_inbox_person (run_id, node, person, tenant)
SELECT run_id, 'review', 'person ' || n, 'acme' FROM filling;
INSERT INTO ductor.eec_trigger (tenant, definition, index, manifest_hash, event, next_at_us)
SELECT 'acme', 'definition ' || n, 0, 'm', CASE WHEN n % 2 = 0 THEN 'event ' || n ELSE '' END,
    CASE WHEN n % 2 = 1 THEN n END
FROM filling;
"""

MESSAGE = {"kind": "signal", "name": "paid", "node": "", "payload": "1", "payload_ref": None, "by": ""}
PAGE = {"after_run_id": RUN, "after_node": "listen", "limit": 10}
EVENT = {"tenant": "acme", "event_id": "e7", "name": "shipped"}
CALLS: dict[str, dict[str, Any]] = {
    "load": {"run_ids": [RUN], "fold_revision": 1},
    "inputs": {"run_ids": [RUN]},
    "runs_to_wake": {"now_us": 1, "limit": 10, "scan_limit": 100, "partitions": None},
    "send_message": {
        "run_id": RUN, "tenant": "acme", "message_id": "new", "bound": 1_000, "look_back": 64, **MESSAGE,
        "payload_hashes": [], "payload_bodies": [],
    },
    "message_receipt": {"run_id": RUN, "message_id": "m7", "look_back": 64},
    "deliver_event": {
        "run_ids": [RUN], "tenant": "acme", "message_id": "event:1", "bound": 10_000, "name": "shipped",
        "payload": "1", "payload_ref": None, "by": "", "at_us": 1, "payload_hash": None, "payload_body": None,
    },
    "publish_event": {**EVENT, "event_id": "new", "payload": "1", "source": ""},
    "unmatched_events": {"older_than_us": ROWS, "limit": 10},
    "event_matched": {"tenant": "acme", "event_id": "e100"},
    "remove_old_events": {"before_us": ROWS, "limit": 10},
    "events_since": {"tenant": "acme", "name": "shipped", "since_us": ROWS - 5, "after_position": 0, "limit": 10},
    "event_key_paths": {"tenant": "acme", "name": "shipped"},
    "waits_for_event": {
        "tenant": "acme", "name": "shipped", "key_paths": ["", "payload.order_id"], "key_values": ["", "77"],
        **PAGE, "after_index": 0,
    },
    "unscanned_waits": {"limit": 10},
    "unscanned_waits_of_run": {"run_id": RUN, "limit": 10},
    "wait_scanned": {"run_id": RUN, "node": "listen", "index": 0, "since_us": None},
    "inbox": PAGE,
    "inbox_of_tenant": {**PAGE, "tenant": "acme"},
    "inbox_of_person": {**PAGE, "person": "person 77"},
    "inbox_of_person_in_tenant": {**PAGE, "person": "person 77", "tenant": "acme"},
    "replace_triggers": {
        "tenant": "acme", "definition": "definition 7", "indexes": [0], "manifest_hashes": ["m"], "events": [""],
        "next_at_us": [5],
    },
    "event_triggers": {"tenant": "acme", "event": "event 8"},
    "due_schedules": {"now_us": 9, "limit": 10},
    "advance_schedule": {
        "tenant": "acme", "definition": "definition 7", "index": 0, "manifest_hash": "m", "former_next_at_us": 7,
        "next_at_us": 8,
    },
    "open_run_ids": {"tenant": "acme", "after_run_id": RUN, "limit": 10},
    "open_run_ids_of_definition": {"tenant": "acme", "definition": "definition 2", "after_run_id": RUN, "limit": 10},
}  # fmt: skip
EXCEPTED = {"lock_triggers", "open_runs_by_key"}
"""One touches no table, the other looks at the open runs of its definition by design."""
ROWS_READ_MAX = 250
"""Of a plan node. `runs_to_wake` looks at 100 inputs, `open_run_ids` at a page of each of five definitions."""


def commits() -> dict[str, tuple[Statement, dict[str, Any]]]:
    """Statements of ticks with what waits, and of starts with it."""
    message = Message(id="sent", kind="signal")
    parts: dict[str, Any] = {
        "messages": (MessageDisposition("m7", "consumed"),),
        "sent": (SentMessage("00000000-0000-7000-8000-000000000009", message),),
        "waits": (EventWait(node="listen", index=1, name="shipped", since_us=1),),
        "waits_gone": ("other",),
        "inbox": (InboxItem(node="review", kind="approval", title="", people=("ann",)),),
        "inbox_gone": ("other",),
        "published": (BusEvent(tenant="acme", event_id="published", name="shipped"),),
    }
    batches = {"a tick": make_batch([tick(RUN, 2, **parts)]), "a start": make_batch([start(key="k", **parts)])}
    return {name: (commit_statement(batch.parts), batch.columns) for name, batch in batches.items()}


async def plans_of_filled_tables(
    database: Database,
    settings: dict[str, str],
    statements: dict[str, tuple[Statement, dict[str, Any]]],
    fill: str = FILL,
) -> dict[str, str]:
    """How each statement ran that was prepared when the tables were known to be empty."""
    plans = {}
    connection = await asyncpg.connect(
        database.dsn, server_settings={**settings, "plan_cache_mode": "force_generic_plan"}, statement_cache_size=0
    )
    try:
        await connection.execute("ANALYZE")
        prepared = {
            name: (await connection.prepare(f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) {statement.text}"), statement)
            for name, (statement, _) in statements.items()
        }
        await connection.execute(fill)
        for name, (explain, statement) in prepared.items():
            rows = await explain.fetch(*statement.arguments(statements[name][1]))
            plans[name] = "\n".join(row[0] for row in rows)
    finally:
        await connection.close()
    return plans


def rows_read(plan: str) -> int:
    """The most rows that any node of a plan gave or threw away, over all its rounds."""
    given = [round(float(count) * int(loops)) for count, loops in re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)]
    thrown_away = [int(count) for count in re.findall(r"Rows Removed by \w[\w ]*: (\d+)", plan)]
    return max(given + thrown_away)


def reads_too_much(plan: str, rows_max: int) -> bool:
    return "Seq Scan on eec_" in plan or rows_read(plan) > rows_max


async def test_no_query_reads_more_than_it_answers(database: Database) -> None:
    statements = {name: (QUERIES[name], values) for name, values in CALLS.items()}
    plans = await plans_of_filled_tables(database, PLANNER_SETTINGS, statements)
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, ROWS_READ_MAX)} == {}


async def test_no_commit_reads_more_than_it_writes(database: Database) -> None:
    plans = await plans_of_filled_tables(database, WRITER_PLANNER_SETTINGS, commits())
    assert {name: plan for name, plan in plans.items() if reads_too_much(plan, 2)} == {}


def test_every_query_of_the_file_is_looked_at() -> None:
    assert set(read_named("waiting.sql")) - EXCEPTED <= set(CALLS)


async def test_a_plan_that_scans_is_noticed(database: Database) -> None:
    statement = Statement("SELECT count(*) FROM ductor.eec_event_wait WHERE since_us = $1::bigint", ("since_us",))
    plans = await plans_of_filled_tables(database, {}, {"scan": (statement, {"since_us": 5})})
    assert reads_too_much(plans["scan"], ROWS - 1)
    assert "Seq Scan on eec_" in plans["scan"]
