"""The pages of the documentation and the snippets in them.

What a fenced block is for stands in its first line, after the language:

    ```yaml                 a definition: it compiles
    ```yaml file=a.yaml     the same, and it is written into the page's folder
    ```python               runs; `await` is allowed; blocks of one page share their names
    ```python file=a.py     written into the page's folder, for later blocks
    ```bash run             runs in the page's folder
    ```sql run              runs in the page's embedded database, .ductor/postgres
    ```text output          what the block before printed; `...` stands for anything

Every other block is for reading: commands that would install something, pictures made of characters.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

CHECKOUT = Path(__file__).resolve().parents[2]
TESTED_ELSEWHERE = frozenset({"docs/reference/expressions.md", "docs/reference/definition-language.md"})
"""Pages whose examples have tests of their own, which know more about them."""


class Block(msgspec.Struct, frozen=True):
    """A fenced block. `line` is that of its first line of text; `options` are the words after the language."""

    language: str
    options: tuple[str, ...]
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that the block is written to."""
        return next((option.removeprefix("file=") for option in self.options if option.startswith("file=")), None)


def pages() -> list[str]:
    """Every page whose snippets are tried, by its path in the checkout."""
    found = [path.relative_to(CHECKOUT).as_posix() for path in sorted((CHECKOUT / "docs").rglob("*.md"))]
    return ["README.md", *(page for page in found if page not in TESTED_ELSEWHERE)]


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order. Raises ValueError for one that does not end."""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        if not line.startswith("```"):
            continue
        language, *options = line.removeprefix("```").split() or [""]
        body: list[str] = []
        for _, inner in lines:
            if inner == "```":
                break
            body.append(inner)
        else:
            raise ValueError(f"the block in line {number} does not end")
        yield Block(language, tuple(options), "\n".join(body) + "\n", number + 1)
