"""`replay`, `verify`, `verify-history`, `export` and `import`, in process, over files and over PostgreSQL."""

import asyncio
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from ductor.cli.main import run
from ductor.journal.ids import SystemIds
from ductor.testing import virtual_time
from tests.ductor.recorded_runs import ORDER, engine, export, lines_of
from tests.ductor.test_export_import import forge

Command = Callable[..., tuple[int, str, str]]

HANDLERS = """\
import ductor


@ductor.task("reserve")
async def reserve(sku: str, context: ductor.TaskContext) -> dict:
    assert context.is_replay
    return {"total": 10, "list": "x" * 40_000 if sku == "large" else ""}


@ductor.task("ship")
def ship(total: int) -> dict:
    wanted = total + 1
    if wanted == 1_001:
        raise ValueError("too dear")
    return {"tracking": f"T-{wanted}"}
"""


@virtual_time
async def recorded() -> dict[str, bytes]:
    async with engine() as host:
        done = await host.start("order", {"sku": "large"})
        await done.result()
        waiting = await host.start("order", {"sku": "dear"})
        await asyncio.sleep(60)
        await waiting.signal("note", "hello")
        await asyncio.sleep(60)
        store = host.engine.store
        return {
            "done.jsonl": await export(store, done.run_id),
            "waiting.jsonl": await export(store, waiting.run_id),
            "both.jsonl": await export(store, done.run_id, waiting.run_id),
        }


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return recorded()


@pytest.fixture
def folder(tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    (tmp_path / "order.yaml").write_text(ORDER)
    (tmp_path / "other.yaml").write_text(ORDER.replace("task: ship,", "task: ship_faster,"))
    (tmp_path / "replayed_handlers.py").write_text(HANDLERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def run_ids(files: dict[str, bytes]) -> list[str]:
    heads = [json.loads(line)["head"] for line in lines_of(files["both.jsonl"]) if b'"line":"run"' in line]
    return [head["run_id"] for head in heads]


# --- looking ----------------------------------------------------------------------------------------------------------


def test_a_run_is_shown_as_it_was_after_any_row(call: Command):
    code, out, _ = call("replay", "done.jsonl", "--at", "1")
    assert code == 0
    assert "after row 1 of 3" in out
    assert "@timeout at 2026-01-31 00:00:00 UTC" in out
    assert ["reserve", "task", "running", "1"] in [line.split() for line in out.splitlines()]
    _, out, _ = call("replay", "done.jsonl")
    assert "after row 3 of 3" in out
    assert 'output:      {"tracking":"T-10"}' in out


def test_a_moment_as_json(call: Command):
    _, out, _ = call("replay", "waiting.jsonl", "--at", "2", "-o", "json")
    moment = json.loads(out)
    assert (moment["version"], moment["rows"], moment["run"]["status"]) == (2, 3, "waiting")
    assert set(moment["timers"]) == {"@timeout", "approve"}
    assert moment["run"]["context"] == {"total": 1_000}
    _, out, _ = call("replay", "waiting.jsonl", "--from", "1", "--to", "2", "-o", "jsonl")
    assert [json.loads(line)["version"] for line in out.splitlines()] == [1, 2]
    _, out, _ = call("replay", "waiting.jsonl", "--from", "2", "-o", "json")
    assert [moment["version"] for moment in json.loads(out)] == [2, 3]


def test_a_row_that_does_not_exist(call: Command):
    code, _, error = call("replay", "done.jsonl", "--at", "4")
    assert code == 2
    assert "version 4 of its journal does not exist; it has versions up to 3, and 0 is before the first" in error
    for arguments in (("--at", "-1"), ("--from", "2", "--to", "4"), ("--diff", "1", "9")):
        code, out, error = call("replay", "done.jsonl", *arguments)
        assert (code, out, "does not exist" in error) == (2, "", True), arguments


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--verify", "--at", "2"), "--at: it does not go together with `--verify`"),
        (("--verify", "--against", "order.yaml"), "--against: it does not go together with `--verify`"),
        (("--attempts", "ship", "--diff", "1", "2"), "--diff: it does not go together with `--attempts`"),
        (("--from", "1", "--step-through"), "--step-through: it does not go together with `--from`"),
        (("--to", "2"), "--to: it goes together with `--from A`"),
        (("--from", "3", "--to", "2"), "--to: 2 comes before `--from 3`"),
        (("--pdb",), "--pdb: it goes together with `--step REF --call`"),
        (("--tasks", "replayed_handlers"), "--tasks: it goes together with `--step REF --call`"),
        (("--generation", "1"), "--generation: it goes together with `--step REF --call`"),
    ],
)
def test_no_option_is_passed_over_in_silence(call: Command, arguments: tuple[str, ...], refusal: str):
    code, out, error = call("replay", "done.jsonl", *arguments)
    assert (code, out) == (2, "")
    assert refusal in error


def test_one_of_several_runs_is_named(call: Command, files: dict[str, bytes]):
    code, _, error = call("replay", "both.jsonl")
    assert code == 2
    assert "holds several runs" in error
    _, out, _ = call("replay", f"both.jsonl#{run_ids(files)[1]}")
    assert f"run {run_ids(files)[1]}, after row 3" in out
    code, _, error = call("replay", "both.jsonl#019b76da-a800-71a6-8ac9-000000000000")
    assert code == 3


def test_changes_between_two_rows(call: Command):
    _, out, _ = call("replay", "waiting.jsonl", "--diff", "1", "2")
    assert "context.total: 0 → 1000" in out
    assert 'nodes.approve.waiting: null → "approval"' in out
    _, out, _ = call("replay", "waiting.jsonl", "--diff", "2", "3", "-o", "json")
    assert {"path": ["context", "note"], "after": "hello"} in json.loads(out)
    assert call("replay", "done.jsonl", "--diff", "2", "2")[1] == "nothing changed\n"


def test_changes_tell_moments_as_moments(call: Command):
    _, out, _ = call("replay", "done.jsonl", "--diff", "0", "1")
    assert "timers.@timeout: nothing → 2026-01-31 00:00:00 UTC" in out
    assert "nodes.reserve.dispatched_at_us: 0 → 2026-01-01 00:00:00 UTC" in out


def test_walking_through(call: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n\nn\np\n2\nd\nf ship\nf reserve\nf\n9\ng\np\nwhat\nq\nn\n"))
    _, out, _ = call("replay", "done.jsonl", "--step-through", "--at", "0")
    assert re.findall(r"after row (\d+) of 3", out) == ["0", "1", "2", "3", "2", "2", "3", "0"]
    for told in (
        'nodes.reserve.status: "running" → "succeeded"',
        "no later row is about reserve",
        "say which step",
        "the run has 3 rows",
        "this is before the first row",
        "one row forward",
    ):
        assert told in out


def test_a_row_of_many_events_does_not_flood_the_terminal(call: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.cli.moments.MAX_EVENTS", 1)
    monkeypatch.setattr("ductor.cli.stepping.MAX_CHANGES_SHOWN", 2)
    monkeypatch.setattr("sys.stdin", io.StringIO("d\nq\n"))
    _, out, _ = call("replay", "done.jsonl", "--step-through", "--at", "2")
    assert re.search(r"and \d events more", out)
    walked = re.search(r"and (\d+) changes more: `--diff A B` shows all", out)
    assert walked is not None
    whole = call("replay", "done.jsonl", "--diff", "1", "2")[1].splitlines()
    assert len(whole) == 2 + int(walked[1])
    assert all(line in out for line in whole[:2])
    assert whole[2] not in out


def test_walking_ends_with_its_input(call: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n"))
    code, out, _ = call("replay", "done.jsonl", "--step-through")
    assert code == 0
    assert "this is the last row" in out


def test_attempts_beside_each_other(call: Command):
    _, out, _ = call("replay", "done.jsonl", "--attempts", "ship", "-o", "json")
    (attempt,) = json.loads(out)
    assert (attempt["generation"], attempt["outcome"], attempt["input"]) == (1, "succeeded", {"total": 10})
    _, out, _ = call("replay", "done.jsonl", "--attempts", "ship")
    assert '{"total":10}' in out
    code, _, error = call("replay", "done.jsonl", "--attempts", "nothing")
    assert code == 3
    assert "step 'nothing' has no attempts; these have: reserve, ship" in error


def test_two_runs_beside_each_other(call: Command):
    code, out, _ = call("replay", "done.jsonl", "--diff-run", "waiting.jsonl")
    assert code == 1
    assert "first difference: row 1, event 0" in out
    assert ["approve", "skipped", "waiting"] in [line.split() for line in out.splitlines()]
    assert '  trigger.sku: "large" → "dear"' in out.splitlines()
    _, out, _ = call("replay", "done.jsonl", "--diff-run", "waiting.jsonl", "-o", "json")
    assert {"path": ["trigger", "sku"], "before": "large", "after": "dear"} in json.loads(out)["changes"]
    code, out, _ = call("replay", "done.jsonl", "--diff-run", "done.jsonl")
    assert (code, "every decision is the same" in out) == (0, True)


# --- proving ----------------------------------------------------------------------------------------------------------


def test_every_decision_is_computed_again(call: Command):
    code, out, _ = call("replay", "waiting.jsonl", "--verify")
    assert code == 0
    assert "3 rows hold (hashes, folding and decisions)" in out
    _, out, _ = call("replay", "waiting.jsonl", "--verify", "-o", "json")
    found = json.loads(out)
    assert (found["rows"], found["is_recomputed"], found["divergence"], found["problems"]) == (3, True, None, [])


def test_the_first_event_that_differs_is_told(call: Command, folder: Path, files: dict[str, bytes]):

    (folder / "forged.jsonl").write_bytes(forge(files["done.jsonl"], b'"task":"ship"', b'"task":"shop"'))
    code, out, _ = call("replay", "forged.jsonl", "--verify", "-o", "json")
    divergence = json.loads(out)["divergence"]
    assert code == 1
    assert (divergence["rule"], divergence["version"], divergence["event_index"]) == ("recompute", 2, 4)
    assert (divergence["expected"]["task"], divergence["actual"]["task"]) == ("shop", "ship")
    code, out, _ = call("replay", "forged.jsonl", "--verify")
    assert code == 1
    assert "row 2" in out
    assert "differs in task" in out


def test_what_if(call: Command):
    code, out, _ = call("replay", "done.jsonl", "--against", "order.yaml")
    assert (code, "safe; the run is completed" in out) == (0, True)
    code, out, _ = call("replay", "done.jsonl", "--against", "other.yaml")
    assert code == 1
    assert "needs mapping: step ship: its recorded result is for another task" in out
    code, out, _ = call("replay", "done.jsonl", "--against", "other.yaml", "-o", "json")
    assert (code, json.loads(out)["verdict"]) == (1, "needs mapping")


def test_histories_are_checked(call: Command, folder: Path, files: dict[str, bytes]):
    code, out, error = call("verify-history", "--runs", "both.jsonl", "--against", "order.yaml")
    assert (code, out) == (0, "")
    assert "2 runs (6 rows) checked, 0 differ" in error
    code, out, _ = call("verify-history", "--runs", "both.jsonl")
    assert (code, out) == (0, "")
    code, out, _ = call("verify-history", "--runs", "both.jsonl", "--against", "other.yaml", "-o", "json")
    found = json.loads(out)
    assert (code, found["runs"], found["rows"], found["not_covered"]) == (1, 2, 6, 0)
    (differing,) = found["differing"]
    assert (differing["run_id"], differing["version"], differing["event_index"]) == (run_ids(files)[0], 2, 4)
    assert differing["verdict"] == "needs mapping"
    (folder / "order.yaml").write_text(ORDER.replace("name: order", "name: another"))
    code, _, error = call("verify-history", "--runs", "both.jsonl", "--against", "order.yaml")
    assert code == 3
    assert "nothing was checked, so nothing is proved: all 2 runs are of other definitions" in error
    code, _, error = call("verify-history", "--runs", "both.jsonl", "--definition", "order")
    assert (code, "they choose runs of the database, not of `--runs`" in error) == (2, True)


def test_receipts(call: Command, folder: Path):
    code, receipt, _ = call("verify", "done.jsonl", "--write-receipt")
    assert code == 0
    (folder / "receipt.json").write_text(receipt)
    assert call("verify", "done.jsonl", "--receipt", "receipt.json")[0] == 0
    code, out, _ = call("verify", "waiting.jsonl", "--receipt", "receipt.json")
    assert (code, "the receipt is of run" in out) == (1, True)
    for name, value in (("hash", "00"), ("outcome", "failed"), ("epoch", 1), ("version", 9), ("manifest_hash", "00")):
        (folder / "receipt.json").write_text(json.dumps({**json.loads(receipt), name: value}))
        code, out, _ = call("verify", "done.jsonl", "--receipt", "receipt.json")
        assert (code, name in out or "journal ends at 3" in out) == (1, True), out
    (folder / "receipt.json").write_text("{}")
    assert call("verify", "done.jsonl", "--receipt", "receipt.json")[0] == 2
    assert call("verify", "done.jsonl", "--receipt", "nowhere.json")[0] == 2


# --- calling a handler ------------------------------------------------------------------------------------------------


def test_a_handler_is_called_again(call: Command):
    code, out, _ = call("replay", "done.jsonl", "--step", "reserve", "--call", "--tasks", "replayed_handlers")
    assert (code, "the same as recorded" in out) == (0, True)
    code, out, _ = call(
        "replay", "done.jsonl", "--step", "ship", "--call", "--tasks", "replayed_handlers", "-o", "json"
    )
    found = json.loads(out)
    assert (code, found["is_same"]) == (1, False)
    assert (found["recorded"]["output"], found["output"]) == ({"tracking": "T-10"}, {"tracking": "T-11"})


def test_a_handler_is_called_under_the_debugger(call: Command, monkeypatch: pytest.MonkeyPatch):
    for step, said, told in (
        ("ship", "p total\nn\np wanted\nc\n", ("10", "11")),
        ("reserve", "p sku\nc\n", ("'large'",)),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        _, out, _ = call("replay", "done.jsonl", "--step", step, "--call", "--tasks", "replayed_handlers", "--pdb")
        assert f"{step}()" in out
        assert all(f"(Pdb) {value}\n" in out for value in told)
        assert sys.gettrace() is None


def test_what_there_is_not_to_call(call: Command):
    code, _, error = call("replay", "done.jsonl", "--step", "ship", "--call")
    assert (code, "there is no handler 'ship'; name the module" in error) == (2, True)
    arguments = ("--call", "--tasks", "replayed_handlers")
    assert call("replay", "waiting.jsonl", "--step", "ship", *arguments)[0] == 3
    assert call("replay", "done.jsonl", "--step", "ship", "--generation", "2", *arguments)[0] == 3
    assert call("replay", "done.jsonl", "--call")[0] == 2
    assert call("replay", "done.jsonl", "--step", "ship")[0] == 2


# --- over a database --------------------------------------------------------------------------------------------------


@pytest.fixture
def database(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    address = environment["DUCTOR_DATABASE"]
    monkeypatch.setenv("DUCTOR_DATABASE", address)
    return address


async def execute(address: str, statement: str, *arguments: object) -> None:
    connection = await asyncpg.connect(address)
    try:
        await connection.execute(statement, *arguments)
    finally:
        await connection.close()


def test_export_and_import(call: Command, database: str, folder: Path, files: dict[str, bytes]):
    assert call("db", "migrate")[0] == 0
    code, _, error = call("import", "both.jsonl")
    assert (code, "was not imported" in error) == (5, True)
    code, out, _ = call("import", "both.jsonl", "--as-closed", "-o", "json")
    assert code == 0
    assert [(one["is_new"], one["was_closed"]) for one in json.loads(out)] == [(True, False), (True, True)]
    done, waiting = run_ids(files)

    assert call("replay", done, "--verify")[0] == 0
    assert call("replay", waiting, "--verify")[0] == 0
    assert json.loads(call("show", waiting, "-o", "json")[1])["status"] == "terminated"
    code, out, _ = call("export", done, "-f", "again.jsonl", "-o", "json")
    assert (code, json.loads(out)["runs"]) == (0, 1)
    assert lines_of((folder / "again.jsonl").read_bytes())[1:] == lines_of(files["done.jsonl"])[1:]
    assert sorted(path.name for path in folder.glob("again*")) == ["again.jsonl"]

    for filters, count in (
        (("--definition", "order"), 2),
        (("--definition", "order", "--status", "completed"), 1),
        (("--limit", "1"), 1),
        (("--definition", "nothing"), 0),
        (("--since", "1s"), 0),
        (("--tenant", "another"), 0),
    ):
        code, out, _ = call("export", "-f", "some.jsonl", "-o", "json", *filters)
        assert (code, json.loads(out)["runs"]) == (0, count), filters
    code, _, error = call("export", done, "--tenant", "another", "-f", "none.jsonl")
    assert (code, "there is no such run" in error) == (3, True)
    assert list(folder.glob("none*")) == []
    assert call("verify-history", "--definition", "order")[0] == 0
    code, _, error = call("verify-history", "--definition", "ordr", "-o", "json")
    assert (code, json.loads(error)["error"]["code"]) == (3, "nothing_checked")


TAMPERING = {
    "an event": "UPDATE ductor.eec_workflow_transition SET events = replace(events::text, 'T-10', 'T-99')::json",
    "a time": "UPDATE ductor.eec_workflow_transition SET at_us = at_us + 1 WHERE version = 2",
    "a row is gone": "DELETE FROM ductor.eec_workflow_transition WHERE version = 3",
    "a row is inserted": (
        "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash) "
        "SELECT run_id, 4, gen_random_uuid(), at_us, events, hash FROM ductor.eec_workflow_transition WHERE version = 3"
    ),
    "a large value": "UPDATE ductor.eec_payload SET body = replace(body::text, 'xx', 'xy')::json",
    "the end": "UPDATE ductor.eec_workflow_run SET status = 'failed'",
    "the definition": "UPDATE ductor.eec_definition SET manifest = replace(manifest::text, 'ship', 'shop')::json",
}


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_with_the_tables_is_found(
    call: Command, database: str, folder: Path, files: dict[str, bytes], what: str
):
    call("db", "migrate")
    call("import", "done.jsonl")
    done = run_ids(files)[0]
    code, receipt, _ = call("verify", done, "--write-receipt")
    assert code == 0
    (folder / "receipt.json").write_text(receipt)
    assert call("verify", done, "--receipt", "receipt.json")[0] == 0
    asyncio.run(execute(database, TAMPERING[what]))
    code, out, _ = call("verify", done, "--receipt", "receipt.json")
    assert code == 1, out
    code, out, _ = call("verify", done, "--write-receipt")
    assert code == 1, "a receipt of what does not hold"


def test_a_run_that_is_not_there(call: Command, database: str):
    call("db", "migrate")
    missing = SystemIds().run_id()
    for arguments in (("replay", missing), ("verify", missing), ("export", missing, "-f", "x.jsonl")):
        assert call(*arguments)[0] == 3
