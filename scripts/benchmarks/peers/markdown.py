"""Tables as Markdown, for the pages of the documentation."""

from collections.abc import Iterable

from scripts.benchmarks.report import Cell, Table, cell_text


def markdown(table: Table) -> str:
    """A heading, the table, and its note."""
    heads = [column.replace("_", " ") for column in table.columns]
    lines = [f"### {table.title}", "", _row(heads), _row(_ruler(table))]
    lines += [_row(cell_text(cell) for cell in row) for row in table.rows]
    if table.note:
        lines += ["", table.note[0].upper() + table.note[1:] + "."]
    return "\n".join(lines) + "\n"


def _ruler(table: Table) -> list[str]:
    """Numbers stand to the right."""
    return [
        "---:" if any(_is_number(row[index]) for row in table.rows) else "---" for index in range(len(table.columns))
    ]


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
