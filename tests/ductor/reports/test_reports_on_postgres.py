"""Reports of real runs on PostgreSQL: their numbers are those that are counted from the journals."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyarrow import parquet

import ductor
from ductor.definition_files import SourceDefinition
from ductor.definitions.compile import compile_text
from ductor.journal.events import AttemptDispatched, AttemptFinished, NodeSettled, RunEnded
from ductor.journal.postgres import PostgresStore
from ductor.projections.builtin import builtin_projections
from ductor.projections.errors import InvalidReportError
from ductor.projections.projector import Projector
from ductor.reports import REPORTS, ReportTable, read_funnel_svg, read_timeline
from tests.journal.waiting import until
from tests.postgres_fixtures import Database

SKUS = ("chair", "lamp", "none", "chair", "flaky", "none", "dear")
ORDER = """\
ductor: 1
name: order
search_attributes: {sku: "${trigger.sku}"}
steps:
  - {ref: reserve, type: task, task: reserve, input: {sku: "${trigger.sku}"},
     retry: {max_attempts: 3, initial: 10ms, except: [OutOfStock]},
     next: {choice: [{when: output == 'dear', to: approve}, {to: ship}]}}
  - {ref: approve, type: approval, approvers: [ann, group:board], title: A dear one, next: {approved: ship}}
  - {ref: ship, type: transform, value: 1, join: any}
"""


@ductor.task("reserve")
async def reserve(sku: str, context: ductor.TaskContext) -> str:
    if sku == "none":
        raise ductor.NonRetryable("sold, all of it", type="OutOfStock")
    if sku == "flaky" and context.attempt < 3:
        raise ConnectionError("away")
    return sku


@pytest.fixture
async def filled(database: Database) -> Database:
    """Seven runs: four complete, two fail, one waits for a person; and models that hold them."""
    (compiled,) = compile_text(ORDER, file="order.yaml")
    source = SourceDefinition(compiled, "order.yaml", ORDER)
    async with ductor.Host(tasks=[reserve], definitions=[source], database=database.dsn, projections=None) as host:
        for number, sku in enumerate(SKUS):
            run = await host.start("order", {"sku": sku}, key=f"o-{number}")
            if sku != "dear":
                with contextlib.suppress(ductor.RunFailedError):
                    await run.result(timeout=30)

        async def waits() -> bool:
            return len(await host.inbox()) == 1

        await until(waits)
    async with PostgresStore(database.dsn) as store:
        projector = Projector(store, builtin_projections(), leader="test")
        await projector.catch_up()
        await projector.stop()
    return database


@pytest.fixture
async def client(filled: Database):
    async with ductor.Client(filled.dsn) as client:
        yield client


async def events_of_all(client: ductor.Client) -> dict[str, list[object]]:
    """The events of every run, by its id."""
    return {
        head.run_id: [event for row in await client.run(head.run_id).history() for event in row.events]
        for head in await client.runs(limit=100)
    }


def by(table: ReportTable, *names: str) -> dict[object, dict[str, object]]:
    """Rows by the values of these columns."""
    rows: Sequence[dict[str, object]] = table.objects()  # type: ignore[assignment]
    return {tuple(row[name] for name in names) if len(names) > 1 else row[names[0]]: row for row in rows}


async def test_runs_are_those_of_the_journals(client: ductor.Client):
    journals = await events_of_all(client)
    found = by(await client.report("runs"), "run_id")
    assert set(found) == set(journals)
    for run_id, events in journals.items():
        ended = [event for event in events if isinstance(event, RunEnded)]
        row = found[run_id]
        assert row["status"] == (ended[0].status if ended else "waiting")
        assert row["attempts"] == sum(isinstance(event, AttemptDispatched) for event in events)
        assert row["steps"] == sum(isinstance(one, NodeSettled) and one.status != "skipped" for one in events)
        assert (row["ended_at"] is None) == (row["duration_ms"] is None) == (not ended)
    assert Counter(row["status"] for row in found.values()) == {"completed": 4, "failed": 2, "waiting": 1}


async def test_steps_and_failures_are_those_of_the_journals(client: ductor.Client):
    events = [event for found in (await events_of_all(client)).values() for event in found]
    steps = by(await client.report("steps", definition="order"), "step")
    for step, row in steps.items():
        settled = Counter(one.status for one in events if isinstance(one, NodeSettled) and one.node == step)
        statuses = ("succeeded", "failed", "skipped", "cancelled")
        assert {status: row[status] for status in statuses if row[status]} == dict(settled)
        attempts = [one for one in events if isinstance(one, AttemptFinished) and one.node == step]
        assert (row["attempts"], row["attempts_failed"]) == (
            len(attempts),
            sum(one.outcome == "failed" for one in attempts),
        )
    assert (steps["reserve"]["attempts"], steps["reserve"]["attempts_failed"]) == (9, 4)
    failures = by(await client.report("failures"), "step", "error_type")
    told = {cause: (row["failed"], row["attempts_failed"]) for cause, row in failures.items()}
    assert told == {("reserve", "OutOfStock"): (2, 2), ("reserve", "ConnectionError"): (0, 2)}


async def test_throughput_usage_and_funnel_count_the_same_runs(client: ductor.Client):
    throughput = (await client.report("throughput")).objects()
    for column, count in (("started", 7), ("ended", 6), ("completed", 4), ("failed", 2), ("cancelled", 0)):
        assert sum(int(str(row[column])) for row in throughput) == count
    usage = (await client.report("usage")).objects()
    assert sum(int(str(row["runs_started"])) for row in usage) == 7
    funnel = by(await client.report("funnel", definition="order"), "measure", "step", "target")
    counted = {key: row["count"] for key, row in funnel.items()}
    assert counted["started", "", ""] == 7
    assert counted["taken", "reserve", "ship"] == 4
    assert counted["ended", "reserve", "failed"] == 2
    svg = await read_funnel_svg(client, "order")
    assert "7 began: 4 completed, 2 failed" in svg
    assert "4 · otherwise" in svg


async def test_inbox_and_health_tell_of_now(client: ductor.Client):
    (entry,) = (await client.report("inbox", definition="order")).objects()
    assert (entry["step"], entry["title"], entry["people"]) == ("approve", "A dear one", ["ann", "group:board"])
    assert (await client.report("inbox", definition="other")).rows == ()
    health = by(await client.report("health"), "measure", "subject")
    assert health["runs", "waiting"]["count"] == 1
    assert health["inbox", "approval"]["count"] == 1


async def test_a_report_that_is_cut_says_so(client: ductor.Client):
    newest = await client.report("runs", limit=3)
    assert (len(newest.rows), newest.is_cut) == (3, True)
    assert not (await client.report("runs", limit=7)).is_cut
    begun = sorted(str(row["started_at"]) for row in (await client.report("runs")).objects())
    assert [str(row["started_at"]) for row in newest.objects()] == begun[::-1][:3]


async def test_what_is_no_report_is_refused(client: ductor.Client):
    with pytest.raises(InvalidReportError, match="there are runs, steps"):
        await client.report("nothing")  # type: ignore[arg-type]
    with pytest.raises(InvalidReportError, match="say which"):
        await client.report("funnel")
    with pytest.raises(InvalidReportError, match="limit"):
        await client.report("runs", limit=0)
    with pytest.raises(InvalidReportError, match="ends before"):
        await client.report("throughput", since_us=10, until_us=10)
    with pytest.raises(ductor.DefinitionNotFoundError):
        await read_funnel_svg(client, "nothing")


async def test_another_tenant_sees_nothing_of_it(filled: Database):
    async with ductor.Client(filled.dsn, tenant="other") as other:
        for name in REPORTS:
            if name not in ("health", "throughput"):
                assert (await other.report(name, definition="order")).rows == (), name
        assert all(set(row[1:]) == {0} for row in (await other.report("throughput")).rows)


async def test_a_timeline_has_every_attempt(client: ductor.Client):
    (flaky,) = (await client.search_runs(ductor.RunSearch(text="flaky"))).runs
    timeline = await read_timeline(client, flaky.run_id)
    reserve = next(node for node in timeline.nodes if node.ref == "reserve")
    worked = [span.outcome for span in reserve.spans if span.kind == "attempt"]
    assert worked == ["failed", "failed", "succeeded"]
    assert [span.detail for span in reserve.spans if span.kind == "wait"] == ["retry", "retry"]
    assert timeline.skipped == 1


def command(dsn: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(Path(sys.executable).with_name("ductor")), "report", *arguments],
        env={**os.environ, "DUCTOR_DATABASE": dsn, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_line_prints_and_writes_reports(filled: Database, tmp_path: Path):
    table = command(filled.dsn, "failures", "--definition", "order", "--since", "7d")
    assert "OutOfStock" in table.stdout, table.stderr
    rows = json.loads(command(filled.dsn, "steps", "-o", "json").stdout)
    assert {row["step"]: row["succeeded"] for row in rows} == {"reserve": 5, "approve": 0, "ship": 4}
    lines = command(filled.dsn, "usage", "-o", "jsonl").stdout.splitlines()
    assert sum(json.loads(line)["runs_failed"] for line in lines) == 2
    printed = list(csv.DictReader(io.StringIO(command(filled.dsn, "runs", "-o", "csv").stdout)))
    assert Counter(row["status"] for row in printed) == {"completed": 4, "failed": 2, "waiting": 1}
    csv_file, parquet_file = tmp_path / "runs.csv", tmp_path / "runs.parquet"
    written = command(filled.dsn, "runs", "--csv", str(csv_file), "--parquet", str(parquet_file), "--limit", "2")
    assert (written.returncode, written.stdout) == (0, "")
    assert "there are more: these are 2" in written.stderr
    assert parquet.read_table(parquet_file).num_rows == len(csv_file.read_text().splitlines()) - 1 == 2
    assert command(filled.dsn, "runs", "--until", "1h", "-o", "json").stdout == "[]\n"
    assert command(filled.dsn, "runs", "--since", "2026-01-31", "--until", "2026-02-01T00:00:00Z").returncode == 0
    assert "approve" in command(filled.dsn, "inbox").stdout
    assert "projection" in command(filled.dsn, "health").stdout


def test_the_command_line_draws(filled: Database, tmp_path: Path):
    runs = json.loads(command(filled.dsn, "runs", "-o", "json").stdout)
    flaky = next(row["run_id"] for row in runs if row["search_attributes"] == {"sku": "flaky"})
    for name in (
        ("timeline", flaky),
        ("steps",),
        ("failures",),
        ("throughput", "--every", "1m", "--since", "1h"),
        ("funnel", "order"),
    ):
        svg, png = tmp_path / f"{name[0]}.svg", tmp_path / f"{name[0]}.png"
        drawn = command(filled.dsn, *name, "--svg", str(svg), "--png", str(png))
        assert drawn.returncode == 0, drawn.stderr
        assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")
        assert png.read_bytes().startswith(b"\x89PNG")
    assert "reserve" in command(filled.dsn, "timeline", flaky).stdout


def test_the_command_line_says_what_is_wrong(filled: Database, tmp_path: Path):
    for arguments, code in (
        (("runs", "--limit", "0"), 2),
        (("runs", "--since", "soon"), 2),
        (("runs", "--since", "2026-02-30"), 2),
        (("throughput", "--every", "1ms"), 2),
        (("funnel",), 2),
        (("timeline", "00000000-0000-7000-8000-000000000000"), 3),
        (("runs", "--since", "1h", "--until", "2h"), 2),
        (("runs", "--since", "2026-02-01", "--until", "2026-01-31"), 2),
        (("funnel", "nothing"), 3),
        (("funnel", "order", "--manifest", "nothing"), 3),
        (("funnel", "nothing", "--svg", str(tmp_path / "a.svg")), 3),
        (("failures", "--until", "100d", "--svg", str(tmp_path / "a.svg")), 2),
        (("runs", "--csv", str(tmp_path / "nowhere" / "a.csv")), 2),
    ):
        done = command(filled.dsn, *arguments)
        assert (done.returncode, done.stdout) == (code, ""), (arguments, done.stderr)
        assert done.stderr
    assert list(tmp_path.iterdir()) == []
