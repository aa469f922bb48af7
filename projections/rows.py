"""The events of journal rows, and what of them is known here.

A row that a newer version of the software wrote may hold events, or fields of events, that are not known here. A fold
must refuse such a row; a read model passes over what it does not know, and counts it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from ductor.journal.codec import decode_events, encode_events
from ductor.journal.errors import UnknownEventError
from ductor.journal.events import AnyEvent, Event
from ductor.journal.postgres.feed import FeedColumns
from ductor.projections.outlines import PageOutlines, decode_outlines

STEP_NAMES_REMEMBERED = 10_000
"""Names of nodes whose step is looked up and not worked out again."""

_CHILD_NUMBER = re.compile(r"\[\d+\]")
_PAGE_DECODER: msgspec.json.Decoder[list[list[AnyEvent]]] = msgspec.json.Decoder(list[list[AnyEvent]])


@lru_cache(STEP_NAMES_REMEMBERED)
def step_name(node: str) -> str:
    """The step of the definition that a node of a run stands for: all children of a scatter count as one, `step[]`."""
    return _CHILD_NUMBER.sub("[]", node) if "]" in node else node


def outlines_of_page(columns: FeedColumns) -> tuple[PageOutlines, dict[int, int]]:
    """The outlines of each row's known events, and, by row, how many are not known where there are any."""
    try:
        return decode_outlines(columns.events), {}
    except (msgspec.DecodeError, RecursionError):
        known_by_row, skipped_by_row = events_of_page(columns)
        text = b"[" + b",".join(map(encode_events, known_by_row)) + b"]"
        return decode_outlines(text), skipped_by_row


def events_of_page(columns: FeedColumns) -> tuple[list[list[AnyEvent]], dict[int, int]]:
    """The known events of each row, and, by row, how many are not known where there are any."""
    try:
        return _PAGE_DECODER.decode(columns.events), {}
    except (msgspec.DecodeError, RecursionError):
        events: list[list[AnyEvent]] = []
        skipped_by_row: dict[int, int] = {}
        for row, text in enumerate(columns.texts()):
            known, skipped = known_events(text, columns.run_ids[row], columns.versions[row])
            events.append(known)
            if skipped:
                skipped_by_row[row] = skipped
        return events, skipped_by_row


def known_events(text: bytes, run_id: str, version: int) -> tuple[list[AnyEvent], int]:
    """The events of a row that are known here, and how many are not."""
    try:
        return decode_events(text, run_id=run_id, version=version), 0
    except UnknownEventError:
        objects: Sequence[object] = msgspec.json.decode(text)
        found = [_known_event(one) for one in objects]
        known = [event for event in found if event is not None]
        return known, len(found) - len(known)


def _event_types() -> dict[str, type[Event]]:
    types = {}
    for one in AnyEvent.__args__:
        types[str(one.__struct_config__.tag)] = one
    return types


_TYPES = _event_types()


def _known_event(value: object) -> AnyEvent | None:
    if not isinstance(value, dict):
        return None
    kind = _TYPES.get(str(value.get("type")))
    if kind is None:
        return None
    fields = {field.encode_name for field in msgspec.structs.fields(kind)} | {"type"}
    try:
        event: AnyEvent = msgspec.convert({key: one for key, one in value.items() if key in fields}, AnyEvent)
    except msgspec.ValidationError:
        return None
    return event
