"""What replaying promises of every run: its proof holds, and under its own definition it would have been the same."""

from collections.abc import Callable, Mapping, Sequence

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verification import run_receipt, verify_run
from ductor.actors.what_if import what_if
from ductor.definitions.manifest import encode_manifest
from ductor.journal.recorded import RecordedRun
from ductor.journal.records import LoadedRun, PublishedDefinition, Transition


def check_replay(
    run: LoadedRun,
    rows: Sequence[Transition],
    payloads: Mapping[str, bytes],
    programs: RunPrograms,
    report: Callable[[str, str], None],
) -> None:
    """Replay one run as a person would; `report` takes rule and what is wrong."""
    manifest = programs.program.manifest
    definition = PublishedDefinition(
        tenant=run.head.tenant,
        name=manifest.name,
        version=manifest.version,
        manifest_hash=run.head.manifest_hash,
        manifest=encode_manifest(manifest),
    )
    recorded = RecordedRun(head=run.head, definition=definition, rows=list(rows), payloads=dict(payloads))
    proof = verify_run(recorded, programs, receipt=run_receipt(recorded))
    if not proof.holds:
        report("replay", f"its proof fails: {proof.divergence or proof.problems}")
    found = what_if(recorded, programs, programs)
    if found.verdict != "safe" or found.first_difference is not None:
        reasons = [reason.text for reason in found.reasons]
        report("replay", f"under its own definition it would be another one: {reasons} {found.first_difference}")
