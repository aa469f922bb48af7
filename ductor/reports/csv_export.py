"""CSV as RFC 4180 has it, with what it leaves open decided so that nothing is lost.

The first line names the columns. A field that holds a comma, a quote or a line feed is quoted. No value is an empty
field; an empty text is `""`. Numbers have as many digits as it takes to get the same number back, timestamps are
RFC 3339 in UTC with microseconds, JSON is its text. Lines end with a line feed, and the encoding is UTF-8.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from ductor.reports.file import whole_file
from ductor.reports.table import Cell, ReportTable

_QUOTED: Final = re.compile(r'[",\r\n]|^\s|\s$')
_JSON: Final = msgspec.json.Encoder()


def csv_lines(table: ReportTable) -> Iterator[str]:
    """The lines, each with its end."""
    yield ",".join(field(column.name) for column in table.columns) + "\n"
    is_json = [column.type == "json" for column in table.columns]
    for row in table.rows:
        fields = (
            field(_JSON.encode(cell).decode() if json and cell is not None else cell)
            for cell, json in zip(row, is_json, strict=True)
        )
        yield ",".join(fields) + "\n"


def write_csv(table: ReportTable, path: Path) -> None:
    """Write a file. Raises ReportFileError."""
    with whole_file(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as opened:
        opened.writelines(csv_lines(table))


def field(cell: Cell) -> str:
    """One value as a field."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return timestamp_text(cell)
    text = repr(cell) if isinstance(cell, float) else str(cell)
    if text and not _QUOTED.search(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def timestamp_text(at: datetime) -> str:
    """RFC 3339 in UTC, always with six decimals, so that text sorts as time does."""
    return at.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
