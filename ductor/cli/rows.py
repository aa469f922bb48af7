"""Rows of a journal as text."""

from ductor.actors.views import HistoryRow
from ductor.cli.options import OutputFormat
from ductor.cli.output import json_text, print_json, timestamp

EVENT_WIDTH = 200


def print_row(row: HistoryRow, output: OutputFormat) -> None:
    """A row as lines for people, or as one JSON value."""
    if output != "table":
        print_json(row)
        return
    for number, event in enumerate(row.events):
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        told = {name: value for name, value in fields.items() if value not in (None, "", (), {})}
        where = f"{row.version:>5}  {timestamp(row.at_us)}" if number == 0 else " " * 26
        print(f"{where}  {event.__struct_config__.tag} {json_text(told, EVENT_WIDTH)}", flush=True)
