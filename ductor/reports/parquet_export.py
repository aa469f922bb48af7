"""Parquet with the type of each column, for tools that analyse data. Needs the extra `reports`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ductor.reports.errors import MissingExtraError
from ductor.reports.file import whole_file
from ductor.reports.table import Cell, Column, ReportTable

if TYPE_CHECKING:
    import pyarrow

ROWS_PER_GROUP: Final = 50_000
"""Rows of one group of a file, which is read as a whole."""


def write_parquet(table: ReportTable, path: Path) -> None:
    """Write a file: texts as strings, timestamps in microseconds and UTC, JSON as its text.

    Raises:
        MissingExtraError: the extra `reports` is not installed.
        ReportFileError: the file can't be written.
    """
    try:
        import pyarrow  # noqa: PLC0415 - an extra
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Parquet", "pyarrow", "reports") from error
    types = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "real": pyarrow.float64(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "date": pyarrow.date32(),
        "json": pyarrow.string(),
    }
    schema = pyarrow.schema([pyarrow.field(column.name, types[column.type]) for column in table.columns])
    arrays = [_array(table, place, column, types[column.type]) for place, column in enumerate(table.columns)]
    with whole_file(path) as unfinished:
        written = pyarrow.Table.from_arrays(arrays, schema=schema)
        parquet.write_table(written, str(unfinished), compression="zstd", row_group_size=ROWS_PER_GROUP)


def _array(table: ReportTable, place: int, column: Column, kind: "pyarrow.DataType") -> "pyarrow.Array":
    import pyarrow  # noqa: PLC0415 - an extra

    cells = (row[place] for row in table.rows)
    return pyarrow.array([_json_text(cell) if column.type == "json" else cell for cell in cells], type=kind)


def _json_text(cell: Cell) -> str | None:
    return None if cell is None else msgspec.json.encode(cell).decode()
