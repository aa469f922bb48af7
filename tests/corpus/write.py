"""Write what the corpus lacks: `python -m tests.corpus.write [--states]`."""

import sys
import uuid
from collections.abc import Sequence

from ductor.journal.chain import link
from ductor.journal.codec import encode_events, encode_state
from ductor.journal.ids import derived_run_id
from ductor.journal.records import Transition
from ductor.journal.replay import state_at
from tests import corpus
from tests.corpus.child_run_journals import CHILD_RUN_JOURNALS
from tests.corpus.compacted_journals import COMPACTED, compacted_transitions
from tests.corpus.fan_out_journals import FAN_OUT_JOURNALS
from tests.corpus.journals import JOURNALS, START_US, Row, at
from tests.corpus.lease_journals import LEASE_JOURNALS
from tests.corpus.undo_journals import UNDO_JOURNALS

ALL_JOURNALS = JOURNALS | CHILD_RUN_JOURNALS | FAN_OUT_JOURNALS | UNDO_JOURNALS | LEASE_JOURNALS


def transitions(name: str, rows: Sequence[Row]) -> list[Transition]:
    """The rows of a journal as a store would hold them; the same on every call."""
    run_id = derived_run_id(START_US, name)
    written: list[Transition] = []
    previous = b""
    for version, (ms, events) in enumerate(rows, 1):
        text = encode_events(events)
        previous = link(previous, run_id, version, at(ms), text)
        commit_id = uuid.UUID(derived_run_id(at(ms), name, str(version)))
        written.append(
            Transition(run_id=run_id, version=version, commit_id=commit_id, at_us=at(ms), events=text, hash=previous)
        )
    return written


def main(arguments: Sequence[str]) -> None:
    """Write journals and states that are missing; with `--states` all states."""
    for name in set(ALL_JOURNALS) - set(corpus.names()):
        corpus.write(name, transitions(name, ALL_JOURNALS[name]))
    for source, cut in COMPACTED.items():
        if f"compacted-{source}" not in corpus.names():
            corpus.write(f"compacted-{source}", compacted_transitions(source, cut))
    for name in corpus.names():
        path = corpus.state_path(name)
        if "--states" in arguments or not path.exists():
            rows = corpus.read(name)
            path.write_bytes(encode_state(state_at(rows[0].run_id, rows)) + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
