"""The mutator plants what it says, and its tests run on what it has planted."""

import ast
import subprocess
import sys
from pathlib import Path

from scripts.mutation.__main__ import mutated_files
from scripts.mutation.mutants import mutants_of, mutated

CHECKOUT = Path(__file__).parents[2]

SOURCE = """
def f(a, b):
    c = 1
    if a < b and a is not None:
        c += a - b
        print(c)
    return True
"""


def test_every_kind_of_fault_is_planted():
    found = {ast.unparse(mutated(SOURCE, mutant.number)) for mutant in mutants_of(SOURCE)}
    original = ast.unparse(ast.parse(SOURCE))
    expected = (
        ("a < b", "a <= b"),
        ("is not None", "is None"),
        (" and ", " or "),
        ("if a < b and a is not None", "if not (a < b and a is not None)"),
        ("a - b", "a + b"),
        ("c = 1", "c = 2"),
        ("c = 1", "pass"),
        ("c += a - b", "pass"),
        ("print(c)", "pass"),
        ("return True", "return False"),
    )
    assert found == {original.replace(before, after) for before, after in expected}


def test_the_fold_and_the_tick_have_mutants_that_compile():
    files = mutated_files()
    assert CHECKOUT / "journal" / "fold.py" in files
    assert CHECKOUT / "actors" / "tick" / "compute.py" in files
    source = (CHECKOUT / "journal" / "fold.py").read_text()
    for mutant in mutants_of(source):
        tree = mutated(source, mutant.number)
        assert ast.dump(tree) != ast.dump(ast.parse(source)), mutant
        compile(tree, "fold.py", "exec")


def test_tests_run_on_the_planted_fault(tmp_path):
    """The module is found through its name, wherever it is imported from, and its file stays as it is."""
    test = tmp_path / "test_planted.py"
    test.write_text("from ductor.definitions import durations\n\ndef test_it():\n    assert durations.answer() == 1\n")
    module = tmp_path / "durations.py"
    module.write_text("def answer():\n    return 1\n")
    command = [sys.executable, "-m", "scripts.mutation.planting", "ductor.definitions.durations", str(module), "0"]
    ended = subprocess.run([*command, str(test)], cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1, ended.stdout
    assert "AssertionError" in ended.stdout
    assert module.read_text() == "def answer():\n    return 1\n"
