"""The command line in process: output, errors and exit codes that need no database."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ductor.cli.failures import EXIT_BY_CODE, exit_code_of
from ductor.cli.main import COMMANDS, make_app, run
from ductor.definitions.errors import DuctorError
from tests.ductor.flows import ORDER, SCENARIOS


@pytest.fixture
def flows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "order.yaml").write_text(ORDER)
    (tmp_path / "order.scenario.yaml").write_text(SCENARIOS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]):
    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_help_names_every_command_and_the_exit_codes(call):
    code, out, _ = call("--help")
    assert code == 0
    assert all(name in out for name in (*COMMANDS, "db"))
    assert "4 the wait timed out" in " ".join(out.split())


@pytest.mark.parametrize("command", [*COMMANDS, "db migrate"])
def test_every_command_has_help(call, command: str):
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    assert "Usage:" in out


def test_version(call):
    assert call("--version")[:2] == (0, "0.1.0\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("start",),
        ("runs", "--status", "happy"),
        ("runs", "--limit", "0"),
        ("validate", "order.yaml", "-o", "xml"),
        ("start", "order", "--input", "{"),
        ("start", "order", "--input", "@no-such-file.json"),
        ("start", "order", "--wait", "--timeout", "soon"),
        ("test", "no-such-folder"),
        ("test", "--only", "no such scenario"),
        ("host", "--tasks", "no_such_module"),
        ("graph", "order.yaml", "--definition", "other"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_and_costs_2(call, flows, arguments):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("start", "order", "--input", "-"), "input_"),
        (("redrive", "RUN", "--input", "-"), "input_"),
        (("signal", "RUN", "go", "--payload", "-"), "payload"),
        (("event", "gone", "--payload", "-"), "payload"),
        (("reply", "RUN", "ask", "--payload", "-"), "payload"),
        (("export", "RUN", "--file", "-"), "file"),
        (("export", "RUN", "-f", "-"), "file"),
    ],
)
def test_a_hyphen_stands_for_standard_input_or_output(arguments: tuple[str, ...], name: str):
    _, bound, _ = make_app().parse_args(list(arguments), exit_on_error=False, print_error=False)
    assert str(bound.arguments[name]) == "-"


def test_errors_are_json_where_json_is_asked_for(call, flows):
    code, out, err = call("start", "order", "--input", "{", "-o", "json")
    error = json.loads(err)["error"]
    assert (code, out, error["code"], error["exit_code"]) == (2, "", "invalid_argument", 2)
    assert error["fields"]["argument"] == "--input"


def test_each_error_has_its_exit_code():
    def subclasses(kind: type[DuctorError]) -> list[type[DuctorError]]:
        return [kind, *(deeper for one in kind.__subclasses__() for deeper in subclasses(one))]

    for module in ("ductor.actors.errors", "ductor.journal.errors", "ductor.errors"):
        importlib.import_module(module)
    known = {one.code for one in subclasses(DuctorError)}
    assert set(EXIT_BY_CODE) <= known
    assert exit_code_of(ValueError("unknown")) == 2


def test_validate_lists_what_is_valid(call, flows):
    code, out, err = call("validate", ".")
    assert (code, err) == (0, "")
    assert "order" in out
    code, out, _ = call("validate", "order.yaml", "--output", "json")
    (row,) = json.loads(out)
    assert (row["name"], row["steps"], row["handlers"]) == ("order", 2, ["inventory.reserve", "payments.charge"])
    assert row["cannot_run"] == []


def test_validate_tells_every_problem_with_its_line(call, flows):
    (flows / "broken.yaml").write_text("ductor: 1\nname: broken\nsteps:\n  - {ref: a, type: taks}\n  - {ref: a}\n")
    (flows / "worse.json").write_text("{")
    code, out, err = call("validate", ".", "-o", "json")
    problems = json.loads(err)["error"]["fields"]["problems"]
    assert (code, out) == (2, "")
    assert {"broken.yaml", "worse.json"} == {problem["place"]["file"] for problem in problems}
    assert any(problem["place"]["line"] == 4 for problem in problems)


def test_validate_says_what_cannot_run_yet(call, flows, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.actors.steps.RUNNABLE_TYPES", frozenset({"transform"}))
    code, _, err = call("validate", "order.yaml")
    assert code == 0
    assert "can't be published yet" in err
    assert "`reserve`" in err


def test_graph_as_text_and_as_svg(call, flows):
    code, out, _ = call("graph", "order.yaml")
    assert (code, out.splitlines()[0]) == (0, "order")
    assert "└── success ▶ charge" in out
    assert call("graph", "order.yaml", "-o", "svg", "--out", "order.svg") == (0, "", "")
    assert ElementTree.parse(flows / "order.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_scenarios_that_pass(call, flows):
    code, out, _ = call("test")
    assert code == 0
    assert out.splitlines() == [
        "✔ the first charge is slow",
        "✔ declined",
        "✔ cancelled in the middle",
        "3 scenarios, 0 failed",
    ]


def test_scenarios_that_survive_every_crash(call, flows):
    code, out, _ = call("test", ".", "--crash", "--only", "slow")
    assert (code, out.splitlines()[-1]) == (0, "1 scenario, 0 failed")


def test_a_scenario_that_differs_shows_how_and_what_happened(call, flows):
    text = SCENARIOS.replace("duration: 2h1s", "duration: 2h").replace("error: Declined", "error: Refused")
    (flows / "order.scenario.yaml").write_text(text)
    code, out, _ = call("test", "order.scenario.yaml")
    assert code == 1
    assert "duration: expected 2h, found 2h1s" in out
    assert "error: expected Refused, found Declined (no o-2)" in out
    assert "order.scenario.yaml:6: scenario `the first charge is slow`" in out
    assert "run_started" in out
    assert out.splitlines()[-1] == "3 scenarios, 2 failed"
    code, out, _ = call("test", "-o", "jsonl")
    results = [json.loads(line) for line in out.splitlines()]
    assert [result["passed"] for result in results] == [False, False, True]
    assert results[0]["differences"] == ["duration: expected 2h, found 2h1s"]
    assert results[0]["history"][0]["version"] == 1


def test_every_mistake_of_every_scenario_file_is_said(call, flows):
    (flows / "bad.scenario.yaml").write_text("definitions: [order.yaml]\nscenarios: [{name: a}]\n")
    (flows / "worse.scenario.yaml").write_text("definitions: [nowhere.yaml]\nscenarios: []\n")
    code, _, err = call("test")
    assert code == 2
    assert "bad.scenario.yaml:2" in err
    assert "nowhere.yaml" in err


def test_a_reader_that_has_seen_enough_is_no_failure(flows):
    lines = "".join(f"  - {{ref: s{number}, type: transform}}\n" for number in range(9_000))
    (flows / "wide.yaml").write_text(f"name: wide\nsteps:\n{lines}")
    code = "from ductor.cli.main import main; main()"
    command = [sys.executable, "-c", code, "graph", "wide.yaml"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "wide\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
