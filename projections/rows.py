"""Journal rows of the feed as values for projections: decoded once for all that stand at one place.

A row that a newer version of the software wrote may hold events, or fields of events, that are not known here. A fold
must refuse such a row; a read model passes over what it does not know, and counts it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from ductor.journal.codec import decode_events
from ductor.journal.errors import UnknownEventError
from ductor.journal.events import AnyEvent, Event
from ductor.journal.records import FeedEntry, Head
from ductor.projections.model import RunRow

STEP_NAMES_REMEMBERED = 10_000
"""Names of nodes whose step is looked up and not worked out again."""

_CHILD_NUMBER = re.compile(r"\[\d+\]")


@lru_cache(STEP_NAMES_REMEMBERED)
def step_name(node: str) -> str:
    """The step of the definition that a node of a run stands for: all children of a scatter count as one, `step[]`."""
    return _CHILD_NUMBER.sub("[]", node) if "]" in node else node


def run_rows(entries: Iterable[FeedEntry], heads: Mapping[str, Head]) -> list[RunRow]:
    """Rows with the heads of their runs. Rows of a run that is not there any more are left out."""
    rows: list[RunRow] = []
    for entry in entries:
        transition = entry.transition
        head = heads.get(transition.run_id)
        if head is None:
            continue
        events, skipped = known_events(transition.events, transition.run_id, transition.version)
        rows.append(
            RunRow(head, transition.version, transition.at_us, events, len(transition.events), skipped, entry.position)
        )
    return rows


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
