"""The whole proof of one recorded run: its definition, its large values, its rows, its head.

Each part names the first thing that does not hold. What tells of tampering needs no program: hashes of manifest, values
and rows. Computing the decisions again needs the programs, and is left out where they are not wanted.
"""

from hashlib import sha256

import msgspec

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verify import Divergence, RowVerifier
from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_value
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import RunStatus
from ductor.journal.receipts import RunReceipt, receipt_of, receipt_problem
from ductor.journal.recorded import RecordedRun
from ductor.journal.replay import state_at
from ductor.journal.state import RunState


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What the proof of a run found.

    Attributes:
        rows: how many rows were proved before the first that is wrong.
        is_recomputed: whether the decisions were computed again, too.
        divergence: the first row that does not hold, or None.
        problems: what else does not hold: manifest, large values, head, receipt.
    """

    run_id: str
    definition: str
    manifest_hash: str
    version: int
    hash: str
    status: RunStatus
    epoch: int
    rows: int
    is_recomputed: bool
    divergence: Divergence | None = None
    problems: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether everything does."""
        return self.divergence is None and not self.problems


def verify_run(
    run: RecordedRun, programs: RunPrograms | None = None, *, receipt: RunReceipt | None = None
) -> Verification:
    """Prove a run.

    Args:
        programs: compute its decisions again with these; None: hashes and folding only.
        receipt: what somebody was told about it earlier.
    """
    problems = _problems_beside_rows(run)
    payloads = _readable_payloads(run)
    verifier = RowVerifier(programs, run.run_id, payloads)
    divergence = None
    for row in run.rows:
        divergence = verifier.verify(row)
        if divergence is not None:
            break
    else:
        problems += _problems_of_head(run, verifier.state)
        if receipt is not None:
            problems += _problems_of_receipt(run, receipt)
    state = verifier.state
    return Verification(
        run_id=run.run_id,
        definition=run.head.definition,
        manifest_hash=run.head.manifest_hash,
        version=state.version,
        hash=state.last_hash.hex(),
        status=state.status,
        epoch=state.reopened_count,
        rows=verifier.rows,
        is_recomputed=programs is not None,
        divergence=divergence,
        problems=tuple(problems),
    )


def run_receipt(run: RecordedRun) -> RunReceipt:
    """The receipt of a run as it stands. Raises UnknownEventError."""
    return receipt_of(state_at(run.run_id, run.rows))


def _problems_beside_rows(run: RecordedRun) -> list[str]:
    problems = [
        f"the manifest of {one.name!r} does not have the hash {one.manifest_hash}"
        for one in (run.definition, *run.library)
        if sha256(one.manifest).hexdigest() != one.manifest_hash
    ]
    problems += [
        f"the large value {hash} does not have this hash"
        for hash, text in run.payloads.items()
        if sha256(text).hexdigest() != hash
    ]
    return problems if run.rows else [*problems, "the journal has no rows"]


def _readable_payloads(run: RecordedRun) -> dict[str, JsonValue]:
    """Large values by hash; what is no JSON has been told of by its hash, and is missing for whoever needs it."""
    values: dict[str, JsonValue] = {}
    for hash, text in run.payloads.items():
        try:
            values[hash] = decode_value(text)
        except ValueRefusedError:
            continue
    return values


def _problems_of_head(run: RecordedRun, state: RunState) -> list[str]:
    """The head is derived from the journal."""
    pairs: list[tuple[str, object, object]] = [
        ("tenant", run.head.tenant, state.tenant),
        ("definition", run.head.definition, state.definition),
        ("manifest hash", run.head.manifest_hash, state.manifest_hash),
        ("start key", run.head.key, state.key),
        ("status", run.head.status, state.status),
        ("end", run.head.ended_at_us, state.ended_at_us or None),
        ("error", run.head.error_type, None if state.error is None else state.error.type),
    ]
    return [f"the head's {name} is {told!r}, the journal's {found!r}" for name, told, found in pairs if told != found]


def _problems_of_receipt(run: RecordedRun, receipt: RunReceipt) -> list[str]:
    last_version = run.rows[-1].version if run.rows else 0
    first_version = run.rows[0].version if run.rows else 1
    if receipt.version < first_version:
        return [
            f"the receipt is of version {receipt.version}, and the history begins at {first_version}: it was compacted"
        ]
    state = state_at(run.run_id, run.rows, min(receipt.version, last_version))
    problem = receipt_problem(receipt, run.rows, state)
    return [problem] if problem else []
