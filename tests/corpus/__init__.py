"""Journals that must fold for ever, and the states that they must give.

`NAME.jsonl` holds one row a line, as it was once written; it is never changed. `NAME.state.json` is the state after its
last row, as a snapshot of this fold revision; it changes together with FOLD_REVISION, and only then.

`python -m tests.corpus.write` writes what is missing; with `--states` it writes all states anew.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import msgspec

from ductor.journal.records import Transition

DIRECTORY = Path(__file__).parent


class CorpusRow(msgspec.Struct, frozen=True):
    """A line of a `.jsonl` file. `events` is kept byte for byte; `hash` is hexadecimal."""

    run_id: str
    version: int
    commit_id: UUID
    at_us: int
    hash: str
    events: msgspec.Raw


def names() -> list[str]:
    """The journals of the corpus."""
    return sorted(path.stem for path in DIRECTORY.glob("*.jsonl"))


def read(name: str) -> list[Transition]:
    """The rows of a journal."""
    lines = (DIRECTORY / f"{name}.jsonl").read_bytes().splitlines()
    return list(_transitions(msgspec.json.decode(line, type=CorpusRow) for line in lines))


def write(name: str, transitions: Sequence[Transition]) -> None:
    """Write a journal. FileExistsError for one that is there: nobody's history is rewritten."""
    with (DIRECTORY / f"{name}.jsonl").open("xb") as file:
        for row in transitions:
            line = CorpusRow(row.run_id, row.version, row.commit_id, row.at_us, row.hash.hex(), msgspec.Raw(row.events))
            file.write(msgspec.json.encode(line) + b"\n")


def state_path(name: str) -> Path:
    """Where the state after a journal's last row stands."""
    return DIRECTORY / f"{name}.state.json"


def _transitions(rows: Iterator[CorpusRow]) -> Iterator[Transition]:
    for row in rows:
        yield Transition(
            run_id=row.run_id,
            version=row.version,
            commit_id=row.commit_id,
            at_us=row.at_us,
            hash=bytes.fromhex(row.hash),
            events=bytes(row.events),
        )
