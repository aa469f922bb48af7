"""What importing the face costs: names are loaded when they are used."""

import subprocess
import sys

import pytest

HEAVY = ("asyncpg", "pykka", "celpy", "cel_expr_python", "jsonschema_rs", "cyclopts", "rich", "pytest")


def loaded_after(code: str) -> set[str]:
    probe = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("code", "may_load"),
    [
        ("import ductor", set()),
        ("import ductor.journal.events", set()),
        ("import ductor.cli.main", {"cyclopts"}),
        ("import ductor; ductor.task", {"pykka"}),
    ],
)
def test_only_what_is_used_is_loaded(code: str, may_load: set[str]):
    assert loaded_after(code) <= may_load


LOAD_EACH = """
import importlib, pkgutil, sys
import ductor.cli
for command in pkgutil.iter_modules(ductor.cli.__path__, "ductor.cli."):
    for name in [name for name in sys.modules if name.partition(".")[0] == "ductor"]:
        del sys.modules[name]
    importlib.import_module(command.name)
    print(command.name)
"""


def test_every_command_loads_when_nothing_else_is_loaded():
    """Tests of commands do not show it: these have everything loaded (see `tests.command_server`)."""
    done = subprocess.run([sys.executable, "-c", LOAD_EACH], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) > 30
