"""The journals of the corpus that begin with a compaction."""

import msgspec

from ductor.journal.chain import link
from ductor.journal.codec import encode_events
from ductor.journal.compaction import compacted
from ductor.journal.events import ControlReceived
from ductor.journal.records import Transition
from ductor.journal.replay import state_at
from tests import corpus

COMPACTED = {
    "branches-and-exact-values": 2,
    "fanned-out-and-redriven": 3,
    "leased-and-redriven": 4,
    "paused-signalled-and-redriven": 4,
    "pausing-before-it-continues": 2,
    "undoes-a-child-and-is-redriven": 3,
}
"""Journals that stand in the corpus a second time, compacted after so many rows."""


def compacted_transitions(source: str, cut: int) -> list[Transition]:
    """A journal of the corpus that was compacted after `cut` rows, which are gone, and went on as it did."""
    rows = corpus.read(source)
    before = state_at(rows[0].run_id, rows, cut)
    request = ControlReceived(request_id="compact-1", kind="compact", by="bob")
    written: list[Transition] = []
    previous, events = before.last_hash, encode_events([compacted(before), request])
    for version, row in enumerate((rows[cut - 1], *rows[cut:]), cut + 1):
        text = row.events if written else events
        previous = link(previous, row.run_id, version, row.at_us, text)
        written.append(msgspec.structs.replace(row, version=version, events=text, hash=previous))
    return written
