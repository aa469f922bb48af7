"""Every table of runs begins with `run_id`, and every statement on one is routed by it, but for those named here.

So a PostgreSQL that spreads rows over machines by `run_id` can carry them: what a tick reads and writes lies on one of
them. What looks across runs is a sweep or a list, asked a few times a second whatever the number of runs.
"""

import re
from importlib import resources
from typing import Final

import asyncpg
import pytest

from ductor.journal.postgres.statements import read_named
from tests.postgres_fixtures import Database

TABLES_NOT_BY_RUN: Final = {
    "eec_start_key": "found by its key: who starts a run does not know of one that has it",
    "eec_run_chain": "by the first run of the chain, which all its runs name",
    "eec_chain_input": "by the first run of the chain",
    "eec_digest_item": "by the window, to which runs of many partitions bring items",
}
"""Tables with a column for a run that are spread by something else, and why."""

KEYS: Final = "a start key names the run, not the other way round"
CHAINS: Final = "routed by the first run of the chain, like its table"
DIGESTS: Final = "routed by the window, like its table"
SWEEP: Final = "a sweep: what waits anywhere, by an index of what waits, a page at a time"
LIST: Final = "a list for people or programs, by an index, a page at a time"
ACROSS: Final = "what runs have in common: who waits for an event or a lease is not known beforehand"
FEED: Final = "the journals of all runs in commit order"

STATEMENTS_ACROSS_RUNS: Final = {
    "add_digest_items": DIGESTS,
    "chains": CHAINS,
    "compacted_runs": SWEEP,
    "control": CHAINS,
    "deliver_event": CHAINS,
    "digest_work": SWEEP,
    "event_key_paths": ACROSS,
    "feed": FEED,
    "feed_lag": FEED,
    "find_start_key": KEYS,
    "forwards": CHAINS,
    "heads": LIST,
    "hold_attempts": SWEEP,
    "hold_messages": SWEEP,
    "import_chain": CHAINS,
    "inbox": LIST,
    "inbox_of_person": LIST,
    "inbox_of_person_in_tenant": LIST,
    "inbox_of_tenant": LIST,
    "keys": KEYS,
    "latest_of_chain": CHAINS,
    "lease_line": ACROSS,
    "leases": LIST,
    "message_receipt": CHAINS,
    "new_keys": KEYS,
    "next_due_us": SWEEP,
    "open_run_ids": LIST,
    "open_run_ids_of_definition": LIST,
    "open_runs_by_key": LIST,
    "request_control": CHAINS,
    "resolve_losers": KEYS,
    "runs_to_wake": SWEEP,
    "runs_with_results": SWEEP,
    "send_message": CHAINS,
    "take_digest_items": DIGESTS,
    "unscanned_waits": SWEEP,
    "waits_for_event": ACROSS,
}
"""Statements that use a table of runs without naming the run, and why."""

PACKAGE: Final = "ductor.journal.postgres"
USE: Final = re.compile(
    r"\b(FROM|JOIN|UPDATE|INTO|USING)\s+ductor\.(\w+)(?:\s+(?:AS\s+)?(?!SET\b|WHERE\b|ON\b|ORDER\b|JOIN\b|CROSS\b|LEFT\b"
    r"|SELECT\b|LIMIT\b|GROUP\b|FOR\b|VALUES\b|USING\b|DEFAULT\b|RETURNING\b|UNION\b|DO\b)(\w+))?"
)


def is_routed(statement: str, kind: str, table: str, alias: str) -> bool:
    """Whether a use of a table compares its `run_id`, or gives it for what is inserted."""
    if kind == "INTO":
        return re.search(rf"INTO\s+ductor\.{table}\b[^(]*\(\s*run_id\b", statement) is not None
    column = rf"\b{alias}\.run_id" if alias else rf"(?:\b{table}\.|\bductor\.{table}\.|(?<![\w.]))run_id"
    compared = (
        rf"{column}\s*(=|IN\b)",
        rf"\({column},[^()]*\)\s*(=|IN\b)",
        rf"=\s*(ANY\s*\()?{column}",
        r"USING \(run_id",
    )
    return any(re.search(pattern, statement) for pattern in compared)


def statements() -> dict[str, str]:
    """All named texts of the store, without their comments."""
    files = [file.name for file in resources.files(PACKAGE).iterdir() if file.name.endswith(".sql")]
    named = {name: text for file in files if file != "schema.sql" for name, text in read_named(file).items()}
    return {name: re.sub(r"--[^\n]*", "", text) for name, text in named.items()}


def across_runs(texts: dict[str, str], run_tables: frozenset[str]) -> set[str]:
    """Those that use a table of runs without being routed by the run."""
    return {
        name
        for name, text in texts.items()
        for kind, table, alias in USE.findall(text)
        if table in run_tables and not is_routed(text, kind, table, alias)
    }


@pytest.fixture
async def tables(database: Database) -> dict[str, list[str]]:
    """The primary key of every table that has a column for a run."""
    connection = await asyncpg.connect(database.dsn)
    rows = await connection.fetch(
        """
        SELECT t.relname, (
            SELECT array_agg(k.attname ORDER BY p.n) FROM pg_index i
            CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS p (attnum, n)
            JOIN pg_attribute k ON k.attrelid = t.oid AND k.attnum = p.attnum
            WHERE i.indrelid = t.oid AND i.indisprimary) AS key
        FROM pg_class t JOIN pg_namespace s ON s.oid = t.relnamespace
        JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname IN ('run_id', 'chain_run_id')
        WHERE s.nspname = 'ductor' AND t.relkind = 'r'
        """
    )
    await connection.close()
    return {row[0]: row[1] for row in rows}


async def test_tables_of_runs_begin_with_the_run(tables: dict[str, list[str]]):
    assert len(tables) > 10
    others = {name for name, key in tables.items() if key[0] != "run_id"}
    assert others == TABLES_NOT_BY_RUN.keys()


async def test_statements_on_tables_of_runs_are_routed_by_the_run(tables: dict[str, list[str]]):
    assert across_runs(statements(), frozenset(tables)) == STATEMENTS_ACROSS_RUNS.keys()


def test_what_is_not_routed_is_found():
    texts = {
        "by_status": "SELECT run_id FROM ductor.eec_lease WHERE status = 'x' ORDER BY run_id",
        "of_another": "SELECT 1 FROM ductor.eec_lease a JOIN ductor.eec_lease b ON b.key = a.key WHERE a.run_id = $1",
        "changed": "UPDATE ductor.eec_lease SET fence = 1 WHERE key = $1",
        "routed": "SELECT 1 FROM ductor.eec_lease a JOIN ductor.eec_lease b ON b.run_id = a.run_id WHERE a.run_id = $1",
        "inserted": "INSERT INTO ductor.eec_lease (run_id, node) VALUES ($1, $2)",
    }
    assert across_runs(texts, frozenset({"eec_lease"})) == {"by_status", "of_another", "changed"}
