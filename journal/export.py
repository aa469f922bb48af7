"""The export file: journals as JSON Lines, complete and exact, so that history is debugged, proved and kept elsewhere.

A line is one JSON object that says in `line` what it is. In order:

    header
    for each run:  definition (once for each manifest, before the first run that needs it)
                   run, payload*, transition*, attempt*, control*, message*, run_end
    end

Events and payloads stand in their lines as text, not as JSON: they come back byte for byte, whatever tools have done to
the lines, and the hash chain holds. A payload stands before the rows that name it, so a reader may prove rows as they
come. `run_end` and `end` count what came before them: a file that was cut off is never taken for a whole one.

`ExportReader` takes lines and gives them back decoded, and raises at the first that is out of place, is not counted
right or breaks its chain. Pure: lines come in as bytes.
"""

import uuid
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from ductor.journal.chain import link
from ductor.journal.commit import Payload
from ductor.journal.compaction import is_compacted, state_before
from ductor.journal.errors import ExportFormatError, UnknownEventError, UnreadableSnapshotError
from ductor.journal.records import AttemptRow, Control, Head, PublishedDefinition, Transition
from ductor.journal.transfer import StoredMessage

EXPORT_FORMAT: Final = 1
"""Grows when a reader of the format before would misread a file."""

MAX_LINE_BYTES: Final = 64 << 20
"""A line of an export at most: a value of 8 MiB, escaped as text within text."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="line", omit_defaults=True):
    pass


class Header(_Line, frozen=True, tag="header"):
    """The first line."""

    format: int
    exported_at_us: int


class DefinitionLine(_Line, frozen=True, tag="definition"):
    """A manifest with its source. `manifest` and `places` are JSON text."""

    tenant: str
    name: str
    version: str
    manifest_hash: str
    manifest: str
    source: str = ""
    file: str = ""
    places: str = "{}"
    published_at_us: int = 0

    def record(self) -> PublishedDefinition:
        """As a store keeps it."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return PublishedDefinition(**{**fields, "manifest": self.manifest.encode(), "places": self.places.encode()})


class RunLine(_Line, frozen=True, tag="run"):
    """A run begins. The head is as it was at about the time of the export; the journal tells exactly."""

    head: Head


class PayloadLine(_Line, frozen=True, tag="payload"):
    """A large value: hex SHA-256 of its JSON text, and the text."""

    hash: str
    text: str


class TransitionLine(_Line, frozen=True, tag="transition"):
    """A journal row. `hash` is hex."""

    version: int
    commit_id: uuid.UUID
    at_us: int
    events: str
    hash: str


class AttemptLine(_Line, frozen=True, tag="attempt"):
    """A result that could not ride in a tick."""

    row: AttemptRow


class ControlLine(_Line, frozen=True, tag="control"):
    """A request to the run."""

    row: Control


class MessageLine(_Line, frozen=True, tag="message"):
    """A message to the run, and what became of it."""

    row: StoredMessage


class RunEnd(_Line, frozen=True, tag="run_end"):
    """The run is complete with so many lines since its `run`, this one not counted."""

    run_id: str
    lines: int


class End(_Line, frozen=True, tag="end"):
    """The file is complete with so many runs."""

    runs: int


Line = (
    Header
    | DefinitionLine
    | RunLine
    | PayloadLine
    | TransitionLine
    | AttemptLine
    | ControlLine
    | MessageLine
    | RunEnd
    | End
)
_RANKS: dict[type[_Line], int] = {PayloadLine: 1, TransitionLine: 2, AttemptLine: 3, ControlLine: 4, MessageLine: 5}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


def export_line(line: Line) -> bytes:
    """A line with its end."""
    return _encode(line) + b"\n"


def definition_line(record: PublishedDefinition) -> DefinitionLine:
    """The line of a stored definition."""
    fields = {name: getattr(record, name) for name in DefinitionLine.__struct_fields__}
    return DefinitionLine(**{**fields, "manifest": record.manifest.decode(), "places": record.places.decode()})


def transition_line(row: Transition) -> TransitionLine:
    """The line of a journal row."""
    return TransitionLine(
        version=row.version,
        commit_id=row.commit_id,
        at_us=row.at_us,
        events=row.events.decode(),
        hash=row.hash.hex(),
    )


def payload_line(payload: Payload) -> PayloadLine:
    """The line of a large value."""
    return PayloadLine(hash=payload.hash, text=payload.text.decode())


class ExportReader:
    """Reads the lines of one file.

    Args:
        file: its name, for errors.

    Attributes:
        number: of the line that was read last, from 1.
        definitions: by hash, those read so far.
        run: the head of the run that is being read; None between runs.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self.number = 0
        self.definitions: dict[str, PublishedDefinition] = {}
        self.run: Head | None = None
        self._lines_of_run = 0
        self._rank = 0
        self._version = 0
        self._hash = b""
        self._runs: set[str] = set()
        self._has_ended = False

    def read(self, lines: Iterable[bytes]) -> Iterator[tuple[Line, Transition | None]]:
        """Every line decoded, a transition also as the row it is.

        Raises:
            ExportFormatError: at the first line that is not what it should be.
        """
        for text in lines:
            self.number += 1
            line = self._decoded(text)
            yield line, self._check(line)
        if not self._has_ended:
            self.number += 1
            raise self.error("the file ends before its `end` line; export it again")

    def error(self, reason: str) -> ExportFormatError:
        """What is wrong with the line that was read last."""
        return ExportFormatError(self._file, self.number, reason)

    def _decoded(self, text: bytes) -> Line:
        if len(text) > MAX_LINE_BYTES:
            raise self.error(f"it has more than {MAX_LINE_BYTES} bytes")
        try:
            return _decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise self.error(f"it is no line of an export: {error}") from error

    def _check(self, line: Line) -> Transition | None:
        if self._has_ended:
            raise self.error("nothing may follow the `end` line")
        if self.number == 1:
            self._check_header(line)
        elif type(line) in _RANKS:
            return self._check_row(line)
        elif isinstance(line, RunEnd):
            self._check_run_end(line)
        elif self.run is not None:
            raise self.error(f"run {self.run.run_id} has not ended before it")
        elif isinstance(line, DefinitionLine):
            self._check_definition(line)
        elif isinstance(line, RunLine):
            self._begin(line.head)
        elif isinstance(line, End):
            if line.runs != len(self._runs):
                raise self.error(f"it counts {line.runs} runs and the file has {len(self._runs)}")
            self._has_ended = True
        else:
            raise self.error("there is one header, in the first line")
        return None

    def _check_header(self, line: Line) -> None:
        if not isinstance(line, Header):
            raise self.error("an export begins with a header; this is another kind of file")
        if line.format != EXPORT_FORMAT:
            raise self.error(f"its format is {line.format}, this version of ductor reads {EXPORT_FORMAT}")

    def _check_definition(self, line: DefinitionLine) -> None:
        record = line.record()
        if sha256(record.manifest).hexdigest() != record.manifest_hash:
            raise self.error(f"the manifest of definition {record.name!r} does not have the hash {line.manifest_hash}")
        self.definitions[record.manifest_hash] = record

    def _begin(self, head: Head) -> None:
        if head.run_id in self._runs:
            raise self.error(f"run {head.run_id} is in the file twice")
        if head.manifest_hash not in self.definitions:
            raise self.error(f"the definition of run {head.run_id} does not come before it")
        self._runs.add(head.run_id)
        self.run, self._lines_of_run, self._rank, self._version, self._hash = head, 0, 0, 0, b""

    def _check_row(self, line: Line) -> Transition | None:
        if self.run is None:
            raise self.error("it belongs to no run")
        rank = _RANKS[type(line)]
        if rank < self._rank:
            raise self.error("payloads come first, then transitions, attempts, controls and messages")
        self._rank = rank
        self._lines_of_run += 1
        if isinstance(line, TransitionLine):
            return self._check_transition(line, self.run.run_id)
        if isinstance(line, PayloadLine) and sha256(line.text.encode()).hexdigest() != line.hash:
            raise self.error(f"a payload does not have the hash {line.hash}")
        if isinstance(line, AttemptLine | ControlLine) and line.row.run_id != self.run.run_id:
            raise self.error(f"it belongs to run {line.row.run_id}")
        return None

    def _check_transition(self, line: TransitionLine, run_id: str) -> Transition:
        events = line.events.encode()
        if not self._version and line.version > 1 and is_compacted(events):
            self._begin_late(line, events, run_id)
        version = self._version + 1
        chain_hash = link(self._hash, run_id, version, line.at_us, events)
        if line.version != version:
            raise self.error(f"version {line.version} of run {run_id} stands where {version} should")
        if chain_hash.hex() != line.hash:
            raise self.error(f"the hash of version {version} of run {run_id} does not fit its journal")
        self._version, self._hash = version, chain_hash
        return Transition(
            run_id=run_id, version=version, commit_id=line.commit_id, at_us=line.at_us, events=events, hash=chain_hash
        )

    def _begin_late(self, line: TransitionLine, events: bytes, run_id: str) -> None:
        """The rows before were compacted away."""
        row = Transition(
            run_id=run_id, version=line.version, commit_id=line.commit_id, at_us=line.at_us, events=events, hash=b""
        )
        try:
            self._version, self._hash = line.version - 1, state_before(row).last_hash
        except (UnknownEventError, UnreadableSnapshotError, ValueError) as error:
            raise self.error(f"the compacted state in it can't be read: {error}") from error

    def _check_run_end(self, line: RunEnd) -> None:
        if self.run is None or line.run_id != self.run.run_id:
            raise self.error(f"run {line.run_id} does not end here")
        if line.lines != self._lines_of_run:
            raise self.error(f"run {line.run_id} has {self._lines_of_run} lines and should have {line.lines}")
        if not self._version:
            raise self.error(f"run {line.run_id} has no journal")
        self.run = None
