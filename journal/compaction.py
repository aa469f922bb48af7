"""Compaction: one journal row that stands for all rows before it.

A run that goes on for years has a journal that nobody reads to the beginning any more. A row that begins with
`run_compacted` holds the state that the rows before it gave, and the hash of the last of them, so that the chain goes
on through it. The rows themselves, and the large values that only they name, may then be removed.

The state stands there in a *stable form*: unlike a snapshot, which is thrown away whenever the software folds
otherwise, it is history, and is read for ever. Rules:
- The form is that of `RunState` and what it consists of, without what can be derived. A new field has a default.
- When a field goes, is renamed or means something else, `COMPACTED_STATE_REVISION` grows, and `_CONVERSIONS` says how a
  state of the revision before becomes one of the new. `tests/journal/test_compaction.py` fails until it does.
- It is the state after a whole row, and is the same whether the state was folded or is the one that deciding left:
  what the scheduler has yet to look at is written as the set of nodes that it could start.

Folding a `run_compacted` changes nothing: its state is the one before the row. Whoever has not folded the rows before
it begins with `state_before(row)`, and goes on with this row as with any other. So the row can be computed again, too:
its state gives itself.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import decode_events, decode_state, decode_value, encode_state, encode_value
from ductor.journal.errors import MissingVersionError, UnknownEventError
from ductor.journal.events import RunCompacted
from ductor.journal.records import Transition
from ductor.journal.state import RunState, child_place

COMPACTED_STATE_REVISION: Final = 1
"""Of the stable form."""

MAX_COMPACTED_STATE_BYTES: Final = 16 << 20
"""JSON text of a state that may stand in a journal row. A larger run is continued as new instead."""

COMPACTED_PREFIX: Final = b'[{"type":"run_compacted"'
"""How the events of such a row begin, and of no other: databases find the rows by it."""

_DERIVED: Final = ("last_hash", "touched", "agenda", "fanned")
"""`previous_hash` says the first; the others are what the scheduler has to look at."""

Conversion = Callable[[JsonObject], JsonObject]
_CONVERSIONS: Final[Mapping[int, Conversion]] = {}
"""By revision: how a state of it becomes one of the next."""


def is_compacted(events: bytes) -> bool:
    """Whether a journal row with this text stands for all rows before it."""
    return events.startswith(COMPACTED_PREFIX)


def compacted(state: RunState) -> RunCompacted:
    """What the next row of the run begins with to stand for all rows up to `state`, which is as after a whole row."""
    text = encode_state(msgspec.structs.replace(state, touched=deque(_startable(state)), agenda=[], fanned={}))
    values = decode_value(text)
    assert isinstance(values, dict)
    for name in _DERIVED:
        if name != "touched":
            values.pop(name, None)
    return RunCompacted(state_revision=COMPACTED_STATE_REVISION, state=values, previous_hash=state.last_hash.hex())


def state_size_bytes(event: RunCompacted) -> int:
    """JSON text of the event's state."""
    return len(encode_value(event.state))


def state_before(row: Transition) -> RunState:
    """The state before a row that stands for all rows before it.

    Raises:
        MissingVersionError: it is no such row, so the rows before it are needed.
        UnknownEventError: it can't be read by this version of the software.
    """
    if not is_compacted(row.events):
        raise MissingVersionError(row.run_id, row.version - 1)
    event = decode_events(row.events, run_id=row.run_id, version=row.version)[0]
    assert isinstance(event, RunCompacted)
    state = decode_state(encode_value(_converted(event, row)))
    state.last_hash = bytes.fromhex(event.previous_hash)
    return state


def go_on_from(state: RunState, row: Transition) -> None:
    """Make `state` the one before a row that stands for all rows before it; its large values stay at hand.

    Raises:
        MissingVersionError, UnknownEventError: as `state_before`.
    """
    before = state_before(row)
    before.payloads = state.payloads
    for name in RunState.__struct_fields__:
        setattr(state, name, getattr(before, name))


def _converted(event: RunCompacted, row: Transition) -> JsonValue:
    values, revision = event.state, event.state_revision
    while revision < COMPACTED_STATE_REVISION:
        values, revision = _CONVERSIONS[revision](values), revision + 1
    if revision > COMPACTED_STATE_REVISION:
        raise UnknownEventError(
            row.run_id, row.version, f"its state has revision {revision}, known is {COMPACTED_STATE_REVISION}"
        )
    return values


def _startable(state: RunState) -> list[str]:
    """What the scheduler may have to look at: a superset, which is harmless. Nodes that nothing has happened to count
    only where they were told of, as entrypoints and deferred steps are. Undos and children of scatters, pending again
    after a redrive, begin when their turn comes: whoever looks at one of them begins it."""
    pending = {
        ref
        for ref, node in state.nodes.items()
        if (node.status == "pending" and not ref.endswith(UNDO_SUFFIX) and child_place(ref) is None)
        or (node.waiting == "lease" and node.lease_fence > 0)  # it has its lease, and has not begun
    }
    if not state.is_winding_down or (state.closing is not None and state.closing.defers_started):
        told_of = {*state.touched, *(ref for _, ref in state.agenda)}
        pending |= {ref for ref in told_of if ref not in state.nodes}
    return sorted(pending)
