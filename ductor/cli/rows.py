"""Rows of a journal as text."""

from ductor.actors.views import HistoryRow
from ductor.cli.options import OutputFormat
from ductor.cli.output import json_text, print_json, timestamp
from ductor.definitions.values import JsonValue
from ductor.journal.events import NodeParked

EVENT_WIDTH = 200

MOMENT_US = 10**15
"""What is called `_us` and is above this is a moment and no span: September 2001."""


def print_row(row: HistoryRow, output: OutputFormat) -> None:
    """A row as lines for people, or as one JSON value."""
    if output != "table":
        print_json(row)
        return
    for number, event in enumerate(row.events):
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        told = {name: readable(name, value) for name, value in fields.items() if value not in (None, "", (), {})}
        where = f"{row.version:>5}  {timestamp(row.at_us)}" if number == 0 else " " * 26
        text = parked(event) if isinstance(event, NodeParked) else json_text(told, EVENT_WIDTH)
        print(f"{where}  {event.__struct_config__.tag} {text}", flush=True)


def parked(event: NodeParked) -> str:
    """What a step waits for from this row on, and until when at most."""
    names = f" of {', '.join(event.names)}" if event.names else ""
    people = _people(event.data)
    until = f" until {timestamp(event.until_us)} UTC" if event.until_us else ""
    return f"{event.node}: waits for {event.waiting}{names}{people}{until}"


def _people(data: JsonValue) -> str:
    if not isinstance(data, dict):
        return ""
    asked = data.get("approvers") or data.get("assignee") or data.get("to")
    title = data.get("title") or data.get("ask")
    who = ", ".join(str(name) for name in asked) if isinstance(asked, list) else asked
    return (f" of {who}" if who else "") + (f": {title}" if title else "")


def readable(name: str, value: object) -> object:
    """A field's value for people: a moment as one, anything else as it is."""
    return timestamp(value) if name.endswith("_us") and isinstance(value, int) and value >= MOMENT_US else value
