"""Which large values a run needs at hand: those that its state and its waiting inputs name, and no others.

A reference is written the same way wherever it stands, so what a JSON text names is found without knowing what the text
means. A user's value of the same form is taken for a reference, too: then a value is kept that nobody needs.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from ductor.journal.codec import encode_state
from ductor.journal.errors import MissingVersionError, UnknownEventError, UnreadableSnapshotError
from ductor.journal.events import Message, PayloadRef
from ductor.journal.records import AttemptRow, LoadedRun
from ductor.journal.replay import loaded_state
from ductor.journal.state import RunState

REFERENCE_PATTERN: Final = r'"hash":"([^"\\]{1,64})","size_bytes":([0-9]{1,18})'
"""Finds references in JSON text, as Python and PostgreSQL read it."""

_find_references = re.compile(REFERENCE_PATTERN.encode()).findall


def named_in(text: bytes) -> dict[str, int]:
    """The size of each large value that a JSON text names, by hash."""
    return {hash.decode(): int(size_bytes) for hash, size_bytes in _find_references(text)}


def named_by_inputs(attempts: Iterable[AttemptRow], messages: Iterable[Message]) -> dict[str, int]:
    """The size of each large value that inputs name, by hash."""
    refs: list[PayloadRef | None] = [attempt.output_ref for attempt in attempts]
    refs += [message.payload_ref for message in messages]
    return {ref.hash: ref.size_bytes for ref in refs if ref is not None}


def needed_values(loaded: LoadedRun) -> dict[str, int]:
    """The size of each large value that a coordinator needs to go on, by hash.

    Rows name values that the state has left behind since, so the state is folded where any are named. One that can't
    be folded here needs none: whoever folds it next finds out why.
    """
    needed = named_by_inputs(loaded.attempts, loaded.messages)
    texts = [row.events for row in loaded.tail]
    if loaded.snapshot is not None:
        texts.append(loaded.snapshot.state)
    if any(_find_references(text) for text in texts):
        try:
            needed |= named_in(encode_state(loaded_state(msgspec.structs.replace(loaded, payloads=()))))
        except (MissingVersionError, UnknownEventError, UnreadableSnapshotError):
            return needed
    return needed


def forget_unneeded(state: RunState, encoded: bytes, inputs: Iterable[str]) -> None:
    """Drop large values from memory that neither the state, whose text is `encoded`, nor inputs in hand name."""
    needed = named_in(encoded).keys() | set(inputs)
    state.payloads = {hash: value for hash, value in state.payloads.items() if hash in needed}
