"""Checks many recorded runs under the definitions and the software at hand: what continuous integration asks before a
definition, or ductor itself, is changed.
"""

from collections.abc import Sequence

import msgspec

from ductor.actors.publication import publication
from ductor.actors.recorded_programs import RunPrograms, load_record
from ductor.actors.verification import verify_run
from ductor.actors.what_if import what_if
from ductor.actors.what_if_verdict import Verdict
from ductor.definition_files import SourceDefinition
from ductor.definitions.expressions import ExpressionSyntaxError, FunctionLibrary
from ductor.definitions.manifest import ManifestError
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.errors import UnknownEventError, ValueRefusedError
from ductor.journal.recorded import RecordedRun
from ductor.journal.records import PublishedDefinition


class HistoryFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of one run found.

    Attributes:
        against: hash of the manifest that it was checked under; its own where nothing else was given.
        holds: every row is what it would be today, and hashes and values are what they were.
        verdict: of the what-if, where it was checked under another definition; else empty.
        version, event_index: the first event that differs; None where none does, or the run could not be checked.
        reasons: in words.
    """

    run_id: str
    definition: str
    manifest_hash: str
    against: str
    rows: int
    holds: bool
    verdict: Verdict | str = ""
    version: int | None = None
    event_index: int | None = None
    expected: JsonValue = None
    actual: JsonValue = None
    reasons: tuple[str, ...] = ()


class HistoryVerifier:
    """Checks runs one after another; each definition is compiled once.

    Args:
        definitions: the definitions at hand. A run of one of these names is checked under it. Without any, each run is
            checked under its own: then only the software is on trial.
        functions: what expressions may call beside the standard library.
    """

    def __init__(
        self, definitions: Sequence[SourceDefinition] = (), *, functions: FunctionLibrary | None = None
    ) -> None:
        self._functions = functions
        self._programs: dict[str, Program] = {}
        records = [publication(one.compiled, tenant="default", source=one.text, now_us=0) for one in definitions]
        self._at_hand = {record.name: record for record in records}

    def covers(self, run: RecordedRun) -> bool:
        """Whether there is anything to check the run under. An inline body belongs to the definition around it."""
        return not self._at_hand or run.definition.name in self._at_hand

    def check(self, run: RecordedRun) -> HistoryFinding:
        """Check one run. What it holds that this software can't read is a finding, too."""
        other = self._at_hand.get(run.definition.name, run.definition)
        try:
            own = self._load(run.definition, run.library)
            if other.manifest_hash == run.definition.manifest_hash:
                return self._verified(run, own)
            return self._tried(run, own, self._load(other, [*run.library, *self._at_hand.values()]))
        except (UnknownEventError, ManifestError, ExpressionSyntaxError, ValueRefusedError) as error:
            return _finding(run, other.manifest_hash, holds=False, reasons=(str(error),))

    def _verified(self, run: RecordedRun, own: RunPrograms) -> HistoryFinding:
        found = verify_run(run, own)
        divergence = found.divergence
        if divergence is None:
            return _finding(run, found.manifest_hash, holds=found.holds, reasons=found.problems)
        return _finding(
            run,
            found.manifest_hash,
            holds=False,
            version=divergence.version,
            event_index=divergence.event_index,
            expected=divergence.expected,
            actual=divergence.actual,
            reasons=(f"{divergence.rule}: {divergence.reason}", *found.problems),
        )

    def _tried(self, run: RecordedRun, own: RunPrograms, other: RunPrograms) -> HistoryFinding:
        broken = verify_run(run)
        if not broken.holds:
            return self._verified(run, own)
        found = what_if(run, own, other)
        difference = found.first_difference
        return _finding(
            run,
            found.other_manifest_hash,
            holds=difference is None and found.verdict == "safe",
            verdict=found.verdict,
            version=None if difference is None else difference.version,
            event_index=None if difference is None else difference.event_index,
            expected=None if difference is None else difference.expected,
            actual=None if difference is None else difference.actual,
            reasons=tuple(reason.text for reason in found.reasons),
        )

    def _load(self, definition: PublishedDefinition, library: Sequence[PublishedDefinition]) -> RunPrograms:
        for record in (definition, *library):
            if record.manifest_hash not in self._programs:
                self._programs[record.manifest_hash] = load_record(record, self._functions)
        return RunPrograms(self._programs[definition.manifest_hash], self._programs)


def _finding(run: RecordedRun, against: str, *, holds: bool, **fields: object) -> HistoryFinding:
    finding = HistoryFinding(
        run_id=run.run_id,
        definition=run.head.definition,
        manifest_hash=run.head.manifest_hash,
        against=against,
        rows=len(run.rows),
        holds=holds,
    )
    return msgspec.structs.replace(finding, **fields)
