"""Every snippet of the documentation does what its page says. The marks are explained in `tests.docs.pages`."""

import ast
import asyncio
import contextlib
import doctest
import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from ductor.definitions.compile import compile_text
from ductor.journal.embedded import EmbeddedPostgres
from tests.docs.pages import CHECKOUT, Block, blocks_of, pages
from tests.postgres_fixtures import make_directory

BLOCK_TIMEOUT_S = 90
PAGE_TIMEOUT_S = 400
"""Long pages start a command some thirty times, which takes its time on a busy machine."""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the page's files, which is the working directory and on Python's path meanwhile."""
    made = make_directory()
    monkeypatch.chdir(made)
    monkeypatch.syspath_prepend(str(made))
    monkeypatch.setenv("DUCTOR_DATABASE", "")  # none; and whatever a page sets is undone
    yield made
    for pid_file in made.glob("*.pid"):  # of a page that failed before it could stop what it had started
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 9)
    shutil.rmtree(made)


@pytest.mark.timeout(PAGE_TIMEOUT_S)
@pytest.mark.parametrize("page", pages())
def test_snippets(page: str, folder: Path, command_environment: dict[str, str]):
    names: dict[str, Any] = {"__name__": "snippets"}
    printed = ""
    with asyncio.Runner() as runner:
        for block in blocks_of((CHECKOUT / page).read_text()):
            place = f"{page}:{block.line}"
            if block.language == "text" and "output" in block.options:
                assert_printed(block, printed, place)
            elif block.file is not None:
                write(block, folder, place)
            elif block.language == "yaml":
                compile_text(block.text, file=place)
            elif block.language == "python":
                printed = run_python(block, names, runner, place)
            elif block.language == "bash" and "run" in block.options:
                printed = run_bash(block, folder, command_environment, place)
            elif block.language == "sql" and "run" in block.options:
                runner.run(run_sql(block, folder))


def write(block: Block, folder: Path, place: str) -> None:
    assert block.file is not None
    if block.file.endswith((".yaml", ".yml")) and not block.file.endswith(".scenario.yaml"):
        compile_text(block.text, file=place)
    target = folder / block.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(block.text)


def run_python(block: Block, names: dict[str, Any], runner: asyncio.Runner, place: str) -> str:
    source = "\n" * (block.line - 1) + block.text
    code = compile(source, place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        result = eval(code, names)
        if asyncio.iscoroutine(result):
            runner.run(result)
    return printed.getvalue()


def run_bash(block: Block, folder: Path, environment: dict[str, str], place: str) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env={**os.environ, **environment, "COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BLOCK_TIMEOUT_S,
        check=False,
    )
    logs = "".join(f"\n--- {log.name}\n{log.read_text()}" for log in folder.glob("*.log"))
    assert done.returncode == 0, f"{place}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}{logs}"
    return done.stdout


async def run_sql(block: Block, folder: Path) -> None:
    async with EmbeddedPostgres(folder / ".ductor" / "postgres") as server:
        connection = await asyncpg.connect(server.dsn())
        try:
            for statement in block.text.split(";"):
                if statement.strip():
                    await connection.fetch(statement)
        finally:
            await connection.close()


def assert_printed(block: Block, printed: str, place: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(block.text, printed, flags), (
        f"{place}: expected\n{block.text}\nprinted\n{printed}"
    )


def test_blocks_are_read_with_their_marks_and_lines():
    text = "# Title\n\n```yaml file=a.yaml\nname: a\n```\n\n```\nfree\n```\n"
    assert list(blocks_of(text)) == [
        Block("yaml", ("file=a.yaml",), "name: a\n", 4),
        Block("", (), "free\n", 8),
    ]
    with pytest.raises(ValueError, match="line 1 does not end"):
        list(blocks_of("```python\nx = 1\n"))


def test_output_that_differs_is_told():
    block = Block("text", ("output",), "total ... of 3\n", 1)
    assert_printed(block, "total 2 of 3\n", "page:1")
    with pytest.raises(AssertionError, match="page:1"):
        assert_printed(block, "total 2 of 4\n", "page:1")
