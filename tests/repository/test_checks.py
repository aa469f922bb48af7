"""The check and environment scripts: what they look at, and how they refuse."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import checks
from scripts.link_farm import CHECKOUT, FACE, ROOMS


def run_script(name: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in {"DUCTOR_PYTHON", "PYTHON"}}
    return subprocess.run(
        [CHECKOUT / "scripts" / name, *arguments],
        env=environment | variables,
        check=False,
        capture_output=True,
        text=True,
    )


def test_every_python_file_is_type_checked() -> None:
    modules = [*checks.package_modules(), *checks.top_level_modules("tests"), *checks.top_level_modules("scripts")]
    folders = (*ROOMS, FACE, "tests", "scripts")
    files = {path.resolve() for folder in folders for path in (CHECKOUT / folder).rglob("*.py")}
    assert len(modules) == len(set(modules)) == len(files)
    assert {"ductor", "ductor.journal", "ductor.cli", "scripts.checks", "tests.repository.test_checks"} <= set(modules)


def test_type_check_fails_when_a_file_falls_out_of_sight(capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.run_mypy(["-m", "scripts.link_farm"], 1) == checks.PASSED
    assert checks.run_mypy(["-m", "scripts.link_farm"], 2) == checks.FAILED
    assert "mypy was given 2 files and checked 1." in capsys.readouterr().out


def test_type_check_fails_on_a_wrong_type(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text('x: int = "text"\n')
    assert checks.run_mypy([str(wrong)], 1) != checks.PASSED


def test_unknown_check_is_refused_with_the_known_ones() -> None:
    refused = run_script("check", "spelling", DUCTOR_PYTHON=sys.executable)
    assert refused.returncode == 2
    assert refused.stderr == ("scripts/check: unknown check spelling; there are: format lint types arrows tidy\n")


def test_failed_check_is_named_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checks, "CHECKS", {"first": lambda: checks.FAILED, "second": lambda: checks.PASSED})
    assert checks.main([]) == checks.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "== first"
    assert "   FAILED" in lines[1]
    assert "   passed" in lines[3]
    assert lines[-1] == "Checks failed: first"
    assert checks.main(["second"]) == checks.PASSED


def test_environment_takes_a_given_python_as_it_is() -> None:
    relative = os.path.relpath(sys.executable, CHECKOUT)
    given = run_script("environment", DUCTOR_PYTHON=relative)
    assert given.returncode == 0, given.stderr
    assert os.path.normpath(given.stdout.strip()) == sys.executable, "an environment's Python must not be resolved"


def test_environment_refuses_a_given_python_that_is_not_there() -> None:
    refused = run_script("environment", DUCTOR_PYTHON="no-such-folder/python")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr == "environment: DUCTOR_PYTHON=no-such-folder/python is not there.\n"


@pytest.mark.parametrize("python", ["false", "no-such-python"])
def test_environment_refuses_a_python_that_does_not_fit(python: str) -> None:
    refused = run_script("environment", PYTHON=python)
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert f"PYTHON={python} is not a Python 3.11 or newer" in refused.stderr


def test_environment_without_any_python_says_what_to_install(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "env"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}")
    refused = run_script("environment", PATH=str(tmp_path))
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert "python3-venv" in refused.stderr
