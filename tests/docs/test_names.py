"""What the documentation names is there: tests, files, modules and scripts."""

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import CHECKOUT

TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
PATH = re.compile(r"`((?:actors|definitions|docs|ductor|journal|projections|scripts|tests)/[\w./-]*\w/?)`")


def texts() -> Iterator[tuple[str, str]]:
    for path in [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]:
        yield path.relative_to(CHECKOUT).as_posix(), path.read_text()


@pytest.mark.parametrize(
    ("page", "file", "name"), [(page, *found) for page, text in texts() for found in TEST.findall(text)]
)
def test_named_tests_exist(page: str, file: str, name: str):
    assert re.search(rf"^\s*(async )?def {name}\(", (CHECKOUT / file).read_text(), re.MULTILINE), (
        f"{page}: {file}::{name}"
    )


def test_every_guarantee_names_tests():
    rows = [
        line
        for line in (CHECKOUT / "docs/explanation/guarantees.md").read_text().splitlines()
        if re.match(r"\| \d \|", line)
    ]
    assert len(rows) == 9
    assert all(TEST.search(row) for row in rows)


def test_named_paths_exist():
    missing = [
        f"{page}: {path}" for page, text in texts() for path in PATH.findall(text) if not (CHECKOUT / path).exists()
    ]
    assert not missing
