"""Results on standard output, progress on standard error."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ductor.cli.options import OutputFormat

QUIET_S: Final = 1.0
"""What is done within this needs no word about it."""


def print_json(value: object) -> None:
    """One JSON value on a line of its own."""
    print(msgspec.json.encode(value, enc_hook=str).decode(), flush=True)


def print_rows(
    rows: Sequence[object], output: OutputFormat, columns: Sequence[str], cells: Sequence[Sequence[str]]
) -> None:
    """Rows as a table of `cells`, as one JSON list, or as a JSON value a line."""
    if output == "json":
        print_json(list(rows))
    elif output == "jsonl":
        for row in rows:
            print_json(row)
    else:
        print_table(columns, cells)


def print_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """A plain table, columns apart by blanks; nothing is cut when the output is no terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    is_terminal = sys.stdout.isatty()
    widest = sum(max((len(cell) for cell in column), default=0) + 4 for column in zip(columns, *cells, strict=False))
    Console(width=None if is_terminal else max(widest, 80), highlight=False, soft_wrap=not is_terminal).print(table)


STYLES: Final = {
    "completed": "green",
    "succeeded": "green",
    "running": "blue",
    "waiting": "yellow",
    "paused": "yellow",
    "failed": "red",
    "terminated": "red",
    "cancelled": "magenta",
    "skipped": "dim",
    "pending": "dim",
}


def timestamp(at_us: int | None) -> str:
    """A moment for people: local would differ from logs, so UTC."""
    if not at_us:
        return ""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def json_text(value: Any, limit: int = 0) -> str:
    """A value as JSON text, cut at `limit` characters if one is given."""
    text = msgspec.json.encode(value).decode()
    return text if not limit or len(text) <= limit else text[: limit - 1] + "…"


def say(text: str, output: OutputFormat = "table") -> None:
    """A word to the person at the terminal, apart from the results; none to programs."""
    if output == "table":
        print(text, file=sys.stderr, flush=True)


@contextmanager
def progress(doing: str, output: OutputFormat) -> Iterator[None]:
    """Say what is being done if it takes longer than a moment: moving on a terminal, one line elsewhere.

    Programs are told nothing: what they find on standard error is an error.
    """
    if output != "table":
        yield
        return
    finished = threading.Event()
    teller = threading.Thread(target=_tell, args=(doing, finished), daemon=True)
    teller.start()
    try:
        yield
    finally:
        finished.set()
        teller.join()


def _tell(doing: str, finished: threading.Event) -> None:
    if finished.wait(QUIET_S):
        return
    if not sys.stderr.isatty():
        say(f"{doing} …")
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{doing} …"):
        finished.wait()
