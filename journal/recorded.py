"""A run as it was recorded: everything that replaying it needs, in memory, from a store or from an export file."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_value
from ductor.journal.errors import ExportFormatError, MissingVersionError, RunNotExportedError, RunTooLargeError
from ductor.journal.export import ExportReader, PayloadLine, RunEnd, RunLine
from ductor.journal.exporting import MAX_LOOKS, started_manifests, stored_definition
from ductor.journal.records import Head, PublishedDefinition, Transition
from ductor.journal.replay import fold_transition
from ductor.journal.state import RunState
from ductor.journal.store import Store

MAX_RECORDED_ROWS: Final = 1_000_000
"""Journal rows of a run that is replayed; it is held in memory while it is."""

PAGE_ROWS: Final = 5_000
PAGE_PAYLOADS: Final = 8


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        head: as people list it.
        definition: the one that the run is pinned to.
        rows: its journal from version 1 on, or from the row that stands for all before it.
        payloads: its large values by hash, as they were stored.
        library: the definitions that it may start.
        source: where it comes from: the file's name, empty for a store.
    """

    head: Head
    definition: PublishedDefinition
    rows: list[Transition]
    payloads: dict[str, bytes] = msgspec.field(default_factory=dict)
    library: tuple[PublishedDefinition, ...] = ()
    source: str = ""

    @property
    def run_id(self) -> str:
        """The run."""
        return self.head.run_id

    @property
    def first_version(self) -> int:
        """Where its history begins: 1, or the row that stands for all before it where those were compacted away."""
        return self.rows[0].version if self.rows else 1

    def row(self, version: int) -> Transition:
        """A row. Raises MissingVersionError."""
        first = self.first_version
        if 1 <= version < first:
            raise MissingVersionError(self.run_id, version, begins_at=first)
        if not first <= version < first + len(self.rows):
            raise MissingVersionError(self.run_id, version, ends_at=first + len(self.rows) - 1)
        return self.rows[version - first]

    def values(self) -> dict[str, JsonValue]:
        """Its large values by hash. Raises ValueRefusedError for one that is no JSON."""
        where = f"of run {self.run_id}"
        return {hash: decode_value(text, f"payload {hash} {where}") for hash, text in self.payloads.items()}

    def states(self) -> Iterator[RunState]:
        """The state after each row, one object that goes on: copy what is to be kept.

        Raises:
            UnknownEventError: a row can't be read by this version of the software.
        """
        state = RunState(run_id=self.run_id)
        state.payloads = self.values()
        for row in self.rows:
            fold_transition(state, row)
            yield state


async def recorded_run(store: Store, run_id: str, *, tenant: str | None = None) -> RecordedRun:
    """Read a run of a store.

    Args:
        tenant: whose; None for anybody's.

    Raises:
        RunNotExportedError: there is no such run, or its definition is gone.
        RunTooLargeError: it has more than `MAX_RECORDED_ROWS` rows.
    """
    head = await store.head(run_id)
    if head is None or tenant not in {None, head.tenant}:
        raise RunNotExportedError(run_id, "there is no such run")
    definition = await stored_definition(store, run_id, head.manifest_hash)
    rows: list[Transition] = []
    for _ in range(MAX_LOOKS):
        while page := await store.history(run_id, after_version=rows[-1].version if rows else 0, limit=PAGE_ROWS):
            if rows and page[0].version != rows[-1].version + 1:
                rows.clear()  # its beginning was removed meanwhile: read again what is left
                continue
            rows.extend(page)
            _check_size(run_id, rows)
        before, head = head, await store.head(run_id)
        if head == before:
            break
        if head is None:
            raise RunNotExportedError(run_id, "it has been removed meanwhile")
    else:
        raise RunNotExportedError(run_id, "it moves on too fast; try again, or pause it")
    payloads: dict[str, bytes] = {}
    hash = ""
    while large := await store.payload_page(run_id, after_hash=hash, limit=PAGE_PAYLOADS):
        payloads.update((payload.hash, payload.text) for payload in large)
        hash = large[-1].hash
    library = [await stored_definition(store, run_id, hash) for hash in started_manifests(rows)]
    return RecordedRun(head=head, definition=definition, rows=rows, payloads=payloads, library=tuple(library))


def exported_runs(lines: Iterable[bytes], file: str) -> Iterator[RecordedRun]:
    """The runs of an export file, one after another.

    Raises:
        ExportFormatError: the file is no whole export; runs that came before the place have been given.
        RunTooLargeError: a run has more than `MAX_RECORDED_ROWS` rows.
    """
    reader = ExportReader(file)
    rows: list[Transition] = []
    payloads: dict[str, bytes] = {}
    head: Head | None = None
    for line, row in reader.read(lines):
        if row is not None:
            rows.append(row)
            _check_size(row.run_id, rows)
        elif isinstance(line, PayloadLine):
            payloads[line.hash] = line.text.encode()
        elif isinstance(line, RunLine):
            head, rows, payloads = line.head, [], {}
        elif isinstance(line, RunEnd):
            assert head is not None
            yield RecordedRun(
                head=head,
                definition=reader.definitions[head.manifest_hash],
                rows=rows,
                payloads=payloads,
                library=tuple(
                    reader.definitions[hash] for hash in started_manifests(rows) if hash in reader.definitions
                ),
                source=file,
            )


def exported_run(lines: Iterable[bytes], file: str, run_id: str | None = None) -> RecordedRun:
    """One run of an export file: the only one where none is named.

    Raises:
        ExportFormatError: the file is no whole export, or holds several runs and none is named.
        RunNotExportedError: it does not hold this run.
    """
    found: RecordedRun | None = None
    for run in exported_runs(lines, file):
        if run_id is None and found is not None:
            raise ExportFormatError(file, 0, f"it holds several runs; name one, as {file}#{found.run_id}")
        if run_id in {None, run.run_id}:
            found = run
    if found is None:
        raise RunNotExportedError(run_id or "", f"{file} does not hold it")
    return found


def _check_size(run_id: str, rows: list[Transition]) -> None:
    if len(rows) > MAX_RECORDED_ROWS:
        raise RunTooLargeError(run_id, MAX_RECORDED_ROWS)
