"""Replay: a recorded run, looked at, proved, compared and tried under other definitions. Nothing is written anywhere.

replay = await client.replay(run_id)            # or ductor.replay_file("out.jsonl")
replay.at(7).nodes["charge"].error              # the state after row 7
replay.diff(6, 7)                               # what row 7 changed
replay.verify().holds                           # chain, values, and every decision computed again
replay.what_if("flows/order.yaml").verdict      # "safe", "needs mapping" or "impossible"
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from ductor.actors.attempt_history import AttemptRecord, attempts_of
from ductor.actors.handler_replay import HandlerReplay, call_again, recorded_assignment
from ductor.actors.publication import publication
from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.run_difference import RunDifference, run_difference
from ductor.actors.tasks import Task, TaskRegistry
from ductor.actors.verification import Verification, run_receipt, verify_run
from ductor.actors.views import RunView, run_view
from ductor.actors.what_if import what_if
from ductor.actors.what_if_verdict import WhatIf
from ductor.definition_files import DefinitionSource, SourceDefinition, read_definitions
from ductor.definitions.expressions import FunctionLibrary
from ductor.definitions.manifest import decode_manifest
from ductor.errors import DefinitionNotInSourceError
from ductor.journal.codec import decode_events, decode_state, encode_state
from ductor.journal.errors import ExportFormatError
from ductor.journal.events import AnyEvent
from ductor.journal.export import MAX_LINE_BYTES
from ductor.journal.receipts import RunReceipt
from ductor.journal.recorded import RecordedRun, exported_run, exported_runs
from ductor.journal.records import PublishedDefinition
from ductor.journal.replay import Change, difference, fold_transition
from ductor.journal.state import RunState

CHECKPOINT_ROWS: Final = 1_000
"""States are kept every so many rows, so that going back in a long run does not fold all of it."""


class Replay:
    """One recorded run.

    Attributes:
        run: everything that is recorded of it.
    """

    def __init__(self, run: RecordedRun, *, functions: FunctionLibrary | None = None) -> None:
        """Args: `functions` are those that the run's hosts have beside the standard library."""
        self.run = run
        self._functions = functions
        self._programs: RunPrograms | None = None
        self._checkpoints: dict[int, bytes] = {0: encode_state(RunState(run_id=run.run_id))}
        self._payloads = run.values()

    def __repr__(self) -> str:
        return f"<Replay of {self.run_id}, {self.version} rows>"

    @property
    def run_id(self) -> str:
        """The run."""
        return self.run.run_id

    @property
    def version(self) -> int:
        """The last row."""
        return self.run.rows[-1].version if self.run.rows else 0

    @property
    def programs(self) -> RunPrograms:
        """What the run was carried out by.

        Raises:
            ExpressionSyntaxError: an expression calls a function that is not known here.
        """
        if self._programs is None:
            self._programs = RunPrograms.load(self.run.definition, self.run.library, self._functions)
        return self._programs

    def states(self) -> Iterator[RunState]:
        """The state after each row: one object that goes on, so keep what you want of it, or use `at`."""
        return self.run.states()

    def at(self, version: int | None = None) -> RunState:
        """The state after a row, an object of the caller's own; None means the last one.

        Raises:
            MissingVersionError: there is no such row.
        """
        wanted = self.version if version is None else version
        if wanted:
            self.run.row(wanted)
        nearest = wanted - wanted % CHECKPOINT_ROWS
        while nearest > 0 and nearest not in self._checkpoints:
            nearest -= CHECKPOINT_ROWS
        state = decode_state(self._checkpoints[nearest])
        state.payloads = dict(self._payloads)
        before_first = self.run.first_version - 1
        for row in self.run.rows[max(0, nearest - before_first) : max(0, wanted - before_first)]:
            fold_transition(state, row)
            if row.version % CHECKPOINT_ROWS == 0:
                self._checkpoints[row.version] = encode_state(state)
        return state

    def view(self, version: int | None = None) -> RunView:
        """The run as people see it, after a row. Raises MissingVersionError."""
        state = self.at(version)
        manifest = decode_manifest(self.run.definition.manifest)
        if state.body:
            manifest = self.programs.program.carried_out_by(state.body).manifest
        head = msgspec.structs.replace(self.run.head, updated_at_us=state.at_us)
        return run_view(head, state, manifest)

    def events(self, version: int) -> list[AnyEvent]:
        """The events of a row. Raises MissingVersionError, UnknownEventError."""
        return decode_events(self.run.row(version).events, run_id=self.run_id, version=version)

    def diff(self, before: int, after: int) -> list[Change]:
        """What changed between two rows. Raises MissingVersionError."""
        return difference(self.at(before), self.at(after))

    def attempts(self, step: str) -> list[AttemptRecord]:
        """The attempts of a step: what each was given, and what came of it."""
        return attempts_of(self.run, step)

    def compare(self, other: "Replay") -> RunDifference:
        """The first decision of another run that is another one, and how the steps of both stand."""
        return run_difference(self.run, other.run)

    def verify(self, *, recompute: bool = True, receipt: RunReceipt | None = None) -> Verification:
        """Prove the run.

        Args:
            recompute: compute every decision again, too.
            receipt: what it was at an earlier time.
        """
        return verify_run(self.run, self.programs if recompute else None, receipt=receipt)

    def receipt(self) -> RunReceipt:
        """What the run's journal is now, for somebody to keep."""
        return run_receipt(self.run)

    def what_if(self, *definitions: DefinitionSource) -> WhatIf:
        """What another definition would have made of the run's inputs.

        Args:
            definitions: files, folders or documents; the one with the run's own name is tried, or the only one. The
                run's own stand in for child definitions that are not among them.

        Raises:
            DefinitionError: with every problem of every file.
            DefinitionNotInSourceError: none of several has the run's name.
        """
        return what_if(self.run, self.programs, self.other_programs(read_definitions(*definitions)))

    def other_programs(self, found: Iterable[SourceDefinition]) -> RunPrograms:
        """The programs that `what_if` tries. Raises DefinitionNotInSourceError."""
        records = [publication(one.compiled, tenant=self.run.head.tenant, source=one.text, now_us=0) for one in found]
        chosen = chosen_record(records, self.run.definition.name)
        return RunPrograms.load(chosen, [*self.run.library, *records], self._functions)

    async def call(self, step: str, tasks: Iterable[Task[..., Any]], *, generation: int | None = None) -> HandlerReplay:
        """Call a step's handler again with its recorded input. The run neither knows nor gets the result.

        Args:
            generation: which attempt; None for the last one.

        Raises:
            AttemptNotRecordedError, HandlerMissingError: there is nothing to call.
        """
        assignment, recorded = recorded_assignment(self.run, self.programs, step, generation)
        return await call_again(assignment, recorded, TaskRegistry(tasks))


def replay_file(path: str | Path, run_id: str | None = None, *, functions: FunctionLibrary | None = None) -> Replay:
    """A run of an export file: the only one in it unless one is named.

    Raises:
        ExportFormatError: the file is no whole export, or holds several runs and none is named.
        RunNotExportedError: it does not hold this run.
    """
    return Replay(exported_run(export_lines(path), str(path), run_id), functions=functions)


def replay_files(*paths: str | Path, functions: FunctionLibrary | None = None) -> Iterator[Replay]:
    """All runs of export files, one after another. Raises ExportFormatError."""
    for path in paths:
        for run in exported_runs(export_lines(path), str(path)):
            yield Replay(run, functions=functions)


def export_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of an export file. Raises ExportFormatError when it can't be read."""
    try:
        with Path(path).open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES + 1):
                yield line
    except OSError as error:
        raise ExportFormatError(str(path), 0, f"it can't be read: {error.strerror or error}") from error


def chosen_record(records: list[PublishedDefinition], name: str) -> PublishedDefinition:
    """Of several definitions the one of this name (the last of its versions), or the only one.

    Raises:
        DefinitionNotInSourceError: none has it.
    """
    named = [record for record in records if record.name == name]
    if named:
        return named[-1]
    if len(records) == 1:
        return records[0]
    raise DefinitionNotInSourceError(name, [record.name for record in records])
