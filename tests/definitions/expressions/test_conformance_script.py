"""The script that runs CEL's conformance tests: its judgement, and the published table."""

import importlib.machinery
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "expressions.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("cel_conformance", str(ROOT / "scripts" / "cel-conformance"))
    spec = importlib.util.spec_from_loader("cel_conformance", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


TESTS: list[tuple[dict[str, Any], bool]] = [
    ({"expr": "1 + 1", "expect": {"int": "2"}}, True),
    ({"expr": "1 + 1", "expect": {"double": 2.0}}, False),
    ({"expr": "1u", "expect": {"uint": "1"}}, True),
    ({"expr": "1u", "expect": {"int": "1"}}, False),
    ({"expr": "b'a'", "expect": {"bytes_base64": "YQ=="}}, True),
    (
        {"expr": "[x, {'a': null}]", "bindings": {"x": {"int": "5"}}, "expect": {"list": [{"int": "5"}, {"map": []}]}},
        False,
    ),
    ({"expr": "{'a': [true]}", "expect": {"map": [[{"string": "a"}, {"list": [{"bool": True}]}]]}}, True),
    ({"expr": "0.0 / 0.0", "expect": {"double": "NaN"}}, True),
    ({"expr": "type('')", "expect": {"type": "string"}}, True),
    ({"expr": "1 / 0", "expect": "error"}, True),
    ({"expr": "1 +", "expect": "error"}, True),
    ({"expr": "1", "expect": "error"}, False),
    ({"expr": "1 / 0", "expect": {"int": "0"}}, False),
]


@pytest.mark.parametrize(("test", "passes"), TESTS)
def test_a_result_passes_only_in_value_and_type(test: dict[str, Any], passes: bool, script: ModuleType) -> None:
    assert script.passes(test, script.outcome(test, script.select_engine("portable"))) is passes


def test_the_table_counts_each_file(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cel_expr_python", reason="cel-expr-python has no wheel for this platform")
    vectors = tmp_path / "vectors.jsonl"
    tests = [
        {"file": "one", "section": "s", "name": "good", "expr": "1", "expect": {"int": "1"}},
        {"file": "one", "section": "s", "name": "bad", "expr": "2", "expect": {"int": "1"}},
        {"file": "string_ext", "section": "s", "name": "left out", "expr": "3", "expect": {"int": "1"}},
    ]
    vectors.write_text("".join(json.dumps(test) + "\n" for test in tests))
    names = ("portable", "cel-python", "cel-expr", "cel-python alone", "cel-expr alone")
    assert script.main([str(vectors), "--failures"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        *(f"{name} one/s/bad: 2 -> 2" for name in names),
        f"| part | tests | {' | '.join(names)} |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| one | 2 | 50.0% | 50.0% | 50.0% | 50.0% | 50.0% |",
        "| **core** | 2 | 50.0% | 50.0% | 50.0% | 50.0% | 50.0% |",
    ]


def test_a_runtime_alone_has_no_help(script: ModuleType) -> None:
    alone = script.Alone(script.CelPythonEngine)
    assert script.outcome({"expr": "1 + 1"}, alone) == 2
    assert isinstance(script.outcome({"expr": "{1: 2}[1]"}, alone), Exception)


def test_without_tests_nothing_is_run(script: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert script.main([str(tmp_path / "nowhere")]) == 0
    assert "No conformance tests" in capsys.readouterr().out


def test_the_published_table_is_what_the_script_prints(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = os.environ.get("DUCTOR_CEL_VECTORS")
    if not vectors:
        pytest.skip("DUCTOR_CEL_VECTORS names no file of conformance tests")
    assert script.main([vectors]) == 0
    assert capsys.readouterr().out.strip() in PAGE.read_text(encoding="utf-8")
