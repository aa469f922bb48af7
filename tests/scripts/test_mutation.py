"""The mutator plants what it says, and the tests that run are those that reach the fault, until one fails."""

import ast
import math
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.mutation.__main__ import mutated_files, report, wilson_interval
from scripts.mutation.equivalents import Equivalent, read_equivalents, without_equivalents
from scripts.mutation.mutants import Mutant, mutants_of, mutated
from scripts.mutation.planting import LoadedModule, StaleSourceError
from scripts.mutation.session import Verdict

CHECKOUT = Path(__file__).parents[2]

SOURCE = """
def f(a, b: int=3, *, c=False):
    c = 1
    if a < b <= 9 and a is not None:
        c += a - b
        print(c)
    else:
        del c
    return True
"""


def test_every_kind_of_fault_is_planted():
    found = {ast.unparse(mutated(SOURCE, mutant.number)) for mutant in mutants_of(SOURCE)}
    original = ast.unparse(ast.parse(SOURCE))
    expected = (
        ("int=3", "int=4"),
        ("c=False", "c=True"),
        ("a < b", "a <= b"),
        ("b <= 9", "b < 9"),
        ("<= 9", "<= 10"),
        ("is not None", "is None"),
        (" and ", " or "),
        ("if a < b <= 9 and a is not None", "if not (a < b <= 9 and a is not None)"),
        ("a - b", "a + b"),
        ("c = 1", "c = 2"),
        ("c = 1", "pass"),
        ("c += a - b", "pass"),
        ("print(c)", "pass"),
        ("del c", "pass"),
        ("return True", "return False"),
        ("return True", "pass"),
    )
    assert found == {original.replace(before, after) for before, after in expected}


NESTED = """
class Steps:
    @property
    def size(self) -> int:
        def half(n):
            return n - 1
        return half(self.n)

    def answer(self):
        match self.n:
            case 1:
                print(1)
        return self.n
"""


def test_a_fault_knows_its_function_and_its_lines():
    places = {(one.what.split(",")[0], one.function, one.function_line, one.line) for one in mutants_of(NESTED)}
    assert places == {
        ("n - 1 -> Add", "Steps.size", 3, 6),
        ("1 changed", "Steps.size", 3, 6),
        ("left out: return n - 1", "Steps.size", 3, 6),
        ("left out: return half(self.n)", "Steps.size", 3, 7),
        ("1 changed", "Steps.answer", 9, 12),
        ("left out: print(1)", "Steps.answer", 9, 12),
        ("left out: return self.n", "Steps.answer", 9, 13),
    }


def test_what_only_a_defect_could_reach_is_left_in():
    source = "def f():\n    raise AssertionError('never')\n\ndef g():\n    raise ValueError\n"
    assert [one.what for one in mutants_of(source)] == ["left out: raise ValueError"]
    assert mutants_of("def f(a):\n    assert a is not None and a > 3\n") == []
    uneven = mutants_of("def f(a, b):\n    yield from zip(a, b, strict=True)\n")
    assert [one.what for one in uneven] == []


def test_a_return_of_nothing_at_the_end_of_a_function_is_left_in():
    source = "def f(a):\n    if a:\n        return None\n    print(a)\n    return None\n"
    left_out = [(one.what, one.line) for one in mutants_of(source) if one.what.startswith("left out")]
    assert left_out == [("left out: print(a)", 4), ("left out: return None", 3)]


def test_what_deals_with_an_error_can_be_left_out_too():
    source = "def f(a):\n    try:\n        a()\n    except OSError:\n        print(a)\n        return 1\n    return 2\n"
    left_out = {one.what for one in mutants_of(source) if one.what.startswith("left out")}
    assert left_out == {f"left out: {what}" for what in ("a()", "print(a)", "return 1", "return 2")}


def test_faults_that_read_alike_are_told_apart():
    source = "def f(a):\n    if a:\n        return\n    if not a:\n        return\n"
    assert [one.what for one in mutants_of(source) if "left out" in one.what] == [
        "left out: return",
        "left out: return [2]",
    ]


@pytest.mark.parametrize("file", mutated_files(), ids=lambda file: str(file.relative_to(CHECKOUT)))
def test_all_mutants_compile_are_faults_and_have_names_of_their_own(file: Path):
    source = file.read_text()
    mutants = mutants_of(source)
    assert len({(one.function, one.what) for one in mutants}) == len(mutants)
    original = ast.dump(ast.parse(source))
    for mutant in mutants[:: max(1, len(mutants) // 5)]:
        tree = mutated(source, mutant.number)
        assert ast.dump(tree) != original, mutant
        compile(tree, "mutated.py", "exec")


def test_the_fold_the_tick_and_the_steps_are_mutated():
    files = mutated_files()
    for name in ("journal/fold.py", "journal/fold_ends.py", "actors/tick/compute.py", "actors/steps/task.py"):
        assert CHECKOUT / name in files
    assert mutated_files(["actors/steps/task.py"]) == [CHECKOUT / "actors" / "steps" / "task.py"]


# --- a session --------------------------------------------------------------------------------------------------------

SUBJECT = """
def limit(n, *, most=3):
    while n > most:
        n -= 1
    return n


def unused(n):
    return n + 1


def total(prices):
    sum_of_all = 0
    for price in prices:
        sum_of_all += price
    return sum_of_all
"""

TESTS = """
import subject
from subject import limit as imported

CALLS = []

def test_limit():
    CALLS.append("limit")
    assert CALLS == ["limit"], "one mutant sees what another has left"
    assert (imported(2), imported(3), imported(5), imported(9, most=4)) == (2, 3, 3, 4)

def test_total():
    assert subject.total([]) == 0
    subject.total([1])
"""

RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from scripts.mutation import __main__ as tool
from scripts.mutation import session
tool.CHECKOUT = Path({folder!r})
session.MIN_CPU_SECONDS_PER_TEST = 0.5
file = Path({folder!r}) / "subject.py"
mutants = [(file, one) for one in tool.mutants_of(file.read_text())]
try:
    verdicts = tool.mutate(mutants, {seconds}, ["test_subject.py"])
except tool.TestsFailError as error:
    print("refused:", error)
else:
    for one in verdicts:
        print("verdict:", one.mutant.function, one.mutant.what, one.reached_by, one.is_killed, sep=" | ")
"""


def session(folder: Path, tests: str = TESTS, *, seconds: int = 100) -> list[str]:
    """What a session says of `SUBJECT`; in a process of its own, because it is one of pytest."""
    (folder / "subject.py").write_text(SUBJECT)
    (folder / "test_subject.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    code = RUN.format(folder=str(folder), seconds=seconds)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=CHECKOUT, check=False, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [line for line in ended.stdout.splitlines() if line.startswith(("verdict:", "refused:"))]


def test_a_session_tries_each_mutant_with_the_tests_that_reach_it(tmp_path: Path):
    verdicts = [line.split(" | ")[1:] for line in session(tmp_path)]
    survived = {(function, what.split(",")[0]) for function, what, _, killed in verdicts if killed == "False"}
    assert survived == {
        ("unused", "n + 1 -> Sub"),
        ("unused", "1 changed"),
        ("unused", "left out: return n + 1"),
        ("total", "left out: sum_of_all += price"),
    }
    reached = {(function, count) for function, _, count, _ in verdicts}
    assert reached == {("limit", "1"), ("unused", "0"), ("total", "1")}
    killed = {what for _, what, _, killed in verdicts if killed == "True"}
    assert {"default 3 changed, of `n, *, most=3`", "left out: n -= 1"} <= killed, "one of them runs on for ever"


def test_tests_that_fail_anyway_are_refused(tmp_path: Path):
    said = session(tmp_path, TESTS + "\ndef test_fails():\n    assert False\n")
    assert said == ["refused: 1 tests fail as they are, the first is test_subject.py::test_fails"]
    (only,) = session(tmp_path, "import nothing_of_this_name")
    assert only.startswith("refused: ")


def test_no_mutant_is_tried_when_the_time_is_over(tmp_path: Path):
    assert session(tmp_path, seconds=0) == []


def test_a_file_that_has_changed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "changed_subject.py"
    file.write_text(SUBJECT)
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("changed_subject")
    assert LoadedModule(file).is_loaded(mutants_of(SUBJECT)[0])
    file.write_text(SUBJECT.replace("n -= 1", "n -= 2 * n"))
    with pytest.raises(StaleSourceError, match="limit"):
        LoadedModule(file)
    assert module.limit(5) == 3


# --- equivalents and the report ---------------------------------------------------------------------------------------


def test_equivalents_are_left_out_and_stale_entries_named():
    mutants = mutants_of(SUBJECT)
    entries = [
        Equivalent(module="subject.py", function="unused", what="n + 1 -> Sub", reason="nobody calls it"),
        Equivalent(module="subject.py", function="gone", what="n + 1 -> Sub", reason="it was there once"),
        Equivalent(module="other.py", function="limit", what="n > most -> GtE", reason="another module"),
    ]
    worth, stale = without_equivalents("subject.py", mutants, entries)
    assert [one for one in mutants if one not in worth] == [
        one for one in mutants if (one.function, one.what) == ("unused", "n + 1 -> Sub")
    ]
    assert stale == [entries[1]]


def test_each_equivalent_has_a_reason_and_a_module_that_is_mutated():
    files = {str(file.relative_to(CHECKOUT)) for file in mutated_files()}
    for one in read_equivalents():
        assert one.module in files, one
        assert len(one.reason) > 20, one


def test_a_sample_is_reported_with_its_confidence():
    mutant = Mutant(number=0, function="f", function_line=1, line=1, end_line=1, what="x")
    file = CHECKOUT / "journal" / "fold.py"
    verdicts = [Verdict(file, mutant, 1, is_killed=True)] * 90 + [Verdict(file, mutant, 1, is_killed=False)] * 10
    assert report(verdicts, 100, 3) == [
        "journal/fold.py                    90 of 100 killed",
        "100 of 100 mutants tried: 90 killed, 10 survived; 3 equivalent",
    ]
    assert report(verdicts, 500, 0)[-1] == "killed, of all: 90.0%; with 95 % confidence 82.6% to 94.5%"


def test_the_interval_is_wilsons():
    low, high = wilson_interval(10, 10)
    assert math.isclose(low, 0.7225, abs_tol=1e-3)
    assert high == 1.0
