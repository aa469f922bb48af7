"""The repository keeps its own rules, and each rule can fail."""

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import tidy
from scripts.link_farm import CHECKOUT

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setattr(tidy, "LONGER_FILES", {})  # which names files of this repository

    def write_file(name: str, text: str = "") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


def test_this_repository_is_tidy() -> None:
    assert tidy.problems(CHECKOUT) == []


def test_import_contract_names_the_same_pure_core() -> None:
    """The arrows are checked by one tool and impure calls by another; both must look at the same files."""
    configuration = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    contracts = configuration["tool"]["importlinter"]["contracts"]
    sources = {
        module for contract in contracts if contract["type"] == "forbidden" for module in contract["source_modules"]
    }
    core = {
        "ductor." + name.removesuffix("/").removesuffix(".py").replace("/", ".")
        for name in tidy.PURE_CORE
        if (CHECKOUT / name).exists()
    }
    assert sources == core


def test_tidy_tree_has_no_problems(tmp_path: Path, write: Write) -> None:
    write("definitions/steps/task.py", '"""What a task is."""\n')
    write("actors/steps/task.py", '"""What a task does."""\n')
    write("docs/README.md", "[guide](guide.md#start) and [the web](https://example.org)\n")
    write("docs/guide.md", "[home](README.md)\n")
    write("tests/test_a.py", "async def test_a():\n    await asyncio.sleep(0)\n")
    assert tidy.problems(tmp_path) == []


def test_generated_and_hidden_trees_are_skipped(tmp_path: Path, write: Write) -> None:
    for folder in (
        ".venv-test/lib",
        "web/node_modules/x",
        "ductor/web/assets",
        "journal/__pycache__",
        "a.egg-info",
        "build",
    ):
        write(f"{folder}/utils.py", "# TODO\n")
    (tmp_path / "linked").symlink_to(write("web/node_modules/y.py", "# TODO\n"))
    assert tidy.problems(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param(
            "journal/utils.py",
            "",
            "journal/utils.py: `utils` says nothing: name it after the one thing that it holds",
            id="name of a file",
        ),
        pytest.param(
            "actors/common/store.py",
            "",
            "actors/common/store.py: `common` says nothing: name it after the one thing that it holds",
            id="name of a folder",
        ),
        pytest.param(
            "actors/task_manager.py",
            "",
            "actors/task_manager.py: `manager` says nothing: name it after the one thing that it holds",
            id="part of a name",
        ),
        pytest.param(
            "journal/store.py",
            "x = 1\n" * 451,
            "journal/store.py: 451 lines, more than 450: split it by what it holds",
            id="long file",
        ),
        pytest.param(
            "journal/schema.sql",
            "--\n" * 451,
            "journal/schema.sql: 451 lines, more than 450: split it by what it holds",
            id="long SQL",
        ),
        pytest.param(
            "journal/store.py",
            "def f():\n" + "    x = 1\n" * 60,
            "journal/store.py:1: `f` has 61 lines, more than 60: split it",
            id="long function",
        ),
        pytest.param(
            "journal/store.py",
            "class A:\n    async def f(self):\n" + "        x = 1\n" * 60,
            "journal/store.py:2: `f` has 61 lines, more than 60: split it",
            id="long method",
        ),
        pytest.param(
            "docs/README.md",
            "\nTODO: write it\n",
            "docs/README.md:2: `TODO`: finish it, or open an issue and say here what holds today",
            id="mark in a document",
        ),
        pytest.param(
            "journal/store.py",
            "x = 1  # good enough for now\n",
            "journal/store.py:1: `for now`: finish it, or open an issue and say here what holds today",
            id="mark in words",
        ),
        pytest.param(
            "scripts/demo.sh",
            "cd /home/anna/ductor\n",
            "scripts/demo.sh:1: `/home/anna` is a path of one machine",
            id="path of a machine",
        ),
        pytest.param(
            "journal/store.py",
            "import ductor\n",
            "journal/store.py:1: a room imports `ductor` of the face: import the room that holds it",
            id="room imports the face",
        ),
        pytest.param(
            "journal/store.py",
            "from ductor.cli.main import main\n",
            "journal/store.py:1: a room imports `ductor.cli.main` of the face: import the room that holds it",
            id="room imports a module of the face",
        ),
        pytest.param(
            "journal/fold.py",
            "def f():\n    return datetime.now(UTC)\n",
            "journal/fold.py:2: `now()` in the pure core: take the value as an argument",
            id="clock in the core",
        ),
        pytest.param(
            "definitions/model.py",
            "x = uuid4()\n",
            "definitions/model.py:1: `uuid4()` in the pure core: take the value as an argument",
            id="chance in the core",
        ),
        pytest.param(
            "tests/test_a.py",
            "async def test_a():\n    await asyncio.sleep(0.1)\n",
            "tests/test_a.py:2: a test that sleeps guesses: wait for a signal (`asyncio.sleep(0)` may yield)",
            id="sleep in a test",
        ),
        pytest.param(
            "tests/test_a.py",
            "sleep(1)\n",
            "tests/test_a.py:1: a test that sleeps guesses: wait for a signal (`asyncio.sleep(0)` may yield)",
            id="sleep by its bare name",
        ),
        pytest.param(
            "tests/test_a.py",
            "from ductor.testing.clock import VirtualClock\nawait asyncio.sleep(5)\n",
            "tests/test_a.py:2: a test that sleeps guesses: wait for a signal (`asyncio.sleep(0)` may yield)",
            id="sleep beside a virtual clock on a real loop",
        ),
        pytest.param(
            "actors/steps/task.py",
            "",
            "actors/steps/task.py: has no counterpart definitions/steps/task.py",
            id="behaviour without declaration",
        ),
        pytest.param(
            "docs/guide.md",
            "",
            "docs/guide.md: docs/README.md does not link it",
            id="unlinked document",
        ),
        pytest.param(
            "README.md",
            "[guide](docs/guide.md)\n",
            "README.md: the link to docs/guide.md leads nowhere",
            id="dead link",
        ),
    ],
)
def test_broken_rule_is_one_line(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, name: str, text: str, problem: str
) -> None:
    monkeypatch.setattr(tidy, "DECLARED_ONLY", {})
    write(name, text)
    assert tidy.problems(tmp_path) == [problem]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("actors/coordinator.py", "now = clock.now()\n", id="clock outside the core"),
        pytest.param("journal/store.py", "from ductor.definitions.values import JsonValue\n", id="room imports a room"),
        pytest.param("ductor/host.py", "import ductor\n", id="face imports itself"),
        pytest.param("journal/writer.py", "async def f():\n    await asyncio.sleep(1)\n", id="sleep outside tests"),
        pytest.param("tests/test_a.py", "await clock.sleep(5)\n", id="virtual clock"),
        pytest.param(
            "tests/test_a.py",
            "from ductor.testing.loop import virtual_time\nawait asyncio.sleep(5)\n",
            id="virtual loop",
        ),
        pytest.param("docs/README.md", "line\n" * 451, id="long document"),
        pytest.param("journal/store.py", "x = 1\n" * 450, id="file of the greatest length"),
        pytest.param("journal/store.py", "def f():\n" + "    x = 1\n" * 59, id="function of the greatest length"),
        pytest.param("journal/store.py", "url = '/v1/workspaces/work/x'\n", id="path of a URL"),
    ],
)
def test_rule_reaches_no_further(tmp_path: Path, write: Write, name: str, text: str) -> None:
    write(name, text)
    assert tidy.problems(tmp_path) == []


def test_longer_file_needs_a_reason_and_loses_it(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "LONGER_FILES", {"journal/store.py": "generated"})
    path = write("journal/store.py", "x = 1\n" * 451)
    assert tidy.problems(tmp_path) == []
    path.write_text("x = 1\n")
    assert tidy.problems(tmp_path) == ["journal/store.py: 1 lines: short enough, remove it from LONGER_FILES"]
    path.unlink()
    assert tidy.problems(tmp_path) == ["journal/store.py: listed in LONGER_FILES, but there is no such file"]


def test_declared_step_needs_behaviour_or_a_reason(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "DECLARED_ONLY", {})
    write("definitions/steps/task.py", "")
    assert tidy.problems(tmp_path) == ["definitions/steps/task.py: has no counterpart actors/steps/task.py"]
    monkeypatch.setattr(tidy, "DECLARED_ONLY", {"task": "a reason"})
    assert tidy.problems(tmp_path) == []
    write("actors/steps/task.py", "")
    assert tidy.problems(tmp_path) == [
        "actors/steps/task.py: the step type has behaviour now, remove it from DECLARED_ONLY"
    ]


@pytest.mark.parametrize(
    ("name", "text", "mode", "problem"),
    [
        (
            "scripts/demo",
            "#!/usr/bin/env bash\n",
            0o644,
            "scripts/demo: has a shebang, but is not executable: chmod +x",
        ),
        (
            "scripts/demo.py",
            "x = 1\n",
            0o755,
            "scripts/demo.py: is executable, but does not begin with `#!/usr/bin/env `",
        ),
        (".ci/run", "true\n", 0o644, ".ci/run: a script begins with `#!/usr/bin/env ` and is executable"),
    ],
)
def test_script_can_be_run(tmp_path: Path, write: Write, name: str, text: str, mode: int, problem: str) -> None:
    write(name, text).chmod(mode)
    assert tidy.problems(tmp_path) == [problem]


def test_calls_are_named_by_their_last_part() -> None:
    calls = [node for node in ast.walk(ast.parse("f(); a.b.g(); h()()")) if isinstance(node, ast.Call)]
    assert sorted(map(tidy.called_name, calls)) == ["", "f", "g", "h"]
