"""A report printed, or written to files."""

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ductor.cli.options import OutputFormat
from ductor.cli.report_options import PictureOutput, ReportFormat, ReportOutput

if TYPE_CHECKING:
    from ductor.reports import Column, ReportTable
    from ductor.reports.table import Cell

LEFT_OUT: Final = {"runs": ("manifest_hash", "updated_at", "parent_run_id", "version")}
"""Columns that a table for people has no room for."""
CELL_WIDTH: Final = 80


def said_as(output: ReportFormat) -> OutputFormat:
    """As which format words about the work are meant: programs get none."""
    return "table" if output == "table" else "jsonl"


def deliver(
    table: "ReportTable",
    output: ReportOutput,
    pictures: PictureOutput | None = None,
    draw: Callable[[], str] | None = None,
) -> None:
    """Write the files that are asked for; without any, print the table.

    Raises:
        ReportFileError, MissingExtraError, MissingFontError, EmptyPictureError: a file can't be made.
    """
    from ductor.cli.output import say
    from ductor.reports import write_csv, write_parquet

    written: list[Path] = []
    if output.csv is not None:
        write_csv(table, output.csv)
        written.append(output.csv)
    if output.parquet is not None:
        write_parquet(table, output.parquet)
        written.append(output.parquet)
    if pictures is not None and draw is not None and pictures.is_given:
        written += _draw(pictures, draw())
    word = said_as(output.output)
    for path in written:
        say(f"{path} written", word)
    if not written:
        print_report(table, output.output)
    if table.is_cut:
        say(f"there are more: these are {len(table.rows):,}; --limit says how many", word)


def _draw(pictures: PictureOutput, svg: str) -> list[Path]:
    from ductor.reports import png_of
    from ductor.reports.file import write_picture

    written: list[Path] = []
    if pictures.svg is not None:
        write_picture(svg, pictures.svg)
        written.append(pictures.svg)
    if pictures.png is not None:
        write_picture(png_of(svg), pictures.png)
        written.append(pictures.png)
    return written


def print_report(table: "ReportTable", output: ReportFormat) -> None:
    """Print a report."""
    import sys

    from ductor.cli.output import print_rows, print_table
    from ductor.reports import csv_lines

    if output == "csv":
        sys.stdout.writelines(csv_lines(table))
        sys.stdout.flush()
    elif output == "table":
        hidden = LEFT_OUT.get(table.name, ())
        shown = [place for place, column in enumerate(table.columns) if column.name not in hidden]
        titles = [_title(table.columns[place]) for place in shown]
        print_table(titles, [[_text(row[place]) for place in shown] for row in table.rows])
    else:
        print_rows(table.objects(), output, (), ())


def _title(column: "Column") -> str:
    words = column.name.replace("_", " ")
    return f"{words} (UTC)" if column.type == "timestamp" else words


def _text(cell: "Cell") -> str:
    from ductor.cli.output import json_text

    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(cell, str | date):
        return str(cell)
    if isinstance(cell, float):
        return f"{cell:,.3f}".rstrip("0").rstrip(".")
    return json_text(cell, CELL_WIDTH)
