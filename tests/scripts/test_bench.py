"""The benchmark measures what it says: its bare loop writes the journal, and its report can be read by programs."""

import json
import subprocess
import sys
from pathlib import Path

import asyncpg

from scripts.benchmarks.bare_loop import BareLoop
from scripts.benchmarks.engine_runs import engine_runs
from scripts.benchmarks.load import closed_loop, percentile
from tests.postgres_fixtures import Database

CHECKOUT = Path(__file__).resolve().parents[2]


async def test_the_bare_loop_writes_a_row_for_each_commit_and_gathers_runs(database: Database):
    async with BareLoop(database.dsn) as loop:
        await closed_loop(20, 10, lambda: loop.run(3))
        batches = loop.batches
    connection = await asyncpg.connect(database.dsn)
    try:
        rows = await connection.fetch(
            "SELECT run_id, max(version) AS top, count(*) FROM bare.transition GROUP BY run_id"
        )
        statuses = await connection.fetch("SELECT status, count(*) FROM bare.run GROUP BY status")
    finally:
        await connection.close()
    assert [(row["top"], row["count"]) for row in rows] == [(4, 4)] * 20
    assert [tuple(row) for row in statuses] == [("completed", 20)]
    assert batches < 20 * 4


async def test_a_sequential_step_of_the_engine_is_one_row(database: Database):
    async with engine_runs(database.dsn, 3) as runs:
        load = await closed_loop(8, 4, lambda: runs.run(3))
    connection = await asyncpg.connect(database.dsn)
    try:
        counts = await connection.fetch("SELECT count(*) FROM ductor.eec_workflow_transition GROUP BY run_id")
    finally:
        await connection.close()
    assert [count for (count,) in counts] == [4] * 8
    assert load.runs == len(load.latencies_ms) == 8


def test_percentiles_are_values_that_were_measured():
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_the_report_as_json():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmarks", "--quick", "--json", "fold"],
        cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=100,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert report["environment"]["fsync"] == "on"
    (fold,) = report["measurements"]
    assert [row["what"] for row in fold["rows"]] == ["empty dispatch loop", "fold", "decode and fold"]
    assert all(row["events_per_s"] > 0 for row in fold["rows"])


def test_an_unknown_measurement_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "scripts.benchmarks", "nothing"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 2
    assert "throughput" in done.stderr
