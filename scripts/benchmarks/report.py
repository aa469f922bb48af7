"""What measurements give: tables, for people and as JSON."""

import msgspec
from rich.console import Console
from rich.table import Table as RichTable

Cell = str | int | float | None


class Table(msgspec.Struct, kw_only=True):
    """The figures of one measurement. Column names carry their units; `note` says how to read them."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]] = msgspec.field(default_factory=list)
    note: str = ""

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        assert len(cells) == len(self.columns), f"{self.name}: {cells} does not fit {self.columns}"
        self.rows.append(cells)

    def as_json(self) -> dict[str, object]:
        """The rows as objects by column name."""
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {"name": self.name, "title": self.title, "note": self.note, "rows": rows}


def print_table(console: Console, table: Table) -> None:
    """Print for people."""
    shown = RichTable(title=table.title, title_justify="left", caption=table.note or None, caption_justify="left")
    for number, column in enumerate(table.columns):
        shown.add_column(column.replace("_", " "), justify="left" if number == 0 else "right")
    for row in table.rows:
        shown.add_row(*(cell_text(cell) for cell in row))
    console.print(shown)


def cell_text(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.2f}" if abs(cell) < 1_000 else f"{cell:,.0f}"
    return cell
