"""A report as a table: columns with types, and rows of exact values."""

from datetime import date, datetime
from typing import Literal

import msgspec

from ductor.definitions.values import JsonValue

ColumnType = Literal["text", "integer", "real", "timestamp", "date", "json"]
Cell = JsonValue | datetime | date
"""None where there is no value. Timestamps are in UTC; of a column of type `json` it is the value itself."""


class Column(msgspec.Struct, frozen=True):
    """A column. Names are those of the SQL views of reports."""

    name: str
    type: ColumnType


class ReportTable(msgspec.Struct, frozen=True, kw_only=True):
    """A report.

    Attributes:
        is_cut: there are more rows than were asked for.
    """

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_cut: bool = False

    def objects(self) -> list[dict[str, Cell]]:
        """Each row as an object: values by the name of their column."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]
