"""What the memory store keeps of one run, and what of a commit it refuses as a database would.

Everything is kept as bytes or as values that can't change, and built anew for each reader: what is read is what was
stored, whatever its sender or an earlier reader did to his copy.
"""

import uuid
from collections.abc import Iterable, Sequence

import msgspec

from ductor.journal.admission import check_json, check_parts
from ductor.journal.codec import checked_key, checked_text, checked_value
from ductor.journal.commit import Commit, HeadStart, NewRun, Payload
from ductor.journal.compaction import is_compacted
from ductor.journal.errors import PoisonedCommitError, ValueRefusedError
from ductor.journal.events import TERMINAL_RUN_STATUSES, Message
from ductor.journal.ids import is_run_id
from ductor.journal.large_values import named_by_inputs, named_in, needed_values
from ductor.journal.records import AttemptRow, Control, Head, LoadedRun, RunInputs, Snapshot, Transition
from ductor.journal.state import FOLD_REVISION

_MAX_INTEGER = 2**63 - 1

_ENCODER = msgspec.json.Encoder()
_CONTROL_DECODER = msgspec.json.Decoder(Control)
_ATTEMPT_DECODER = msgspec.json.Decoder(AttemptRow)


class RunRows:
    """All rows of one run."""

    def __init__(self, run_id: str, start: HeadStart, updated_at_us: int) -> None:
        self.head = _stored_head(run_id, start, updated_at_us)
        self.search_attributes = _ENCODER.encode(start.search_attributes)
        self.transitions: list[Transition] = []
        self.compacted_version = 0
        self.payloads: dict[str, bytes] = {}
        self.snapshots: dict[int, Snapshot] = {}
        self.due_at_us: int | None = None
        self.controls: dict[str, bytes] = {}
        self.waiting_controls: dict[str, None] = {}
        self.attempts: dict[tuple[str, int], bytes] = {}
        self.waiting_attempts: dict[tuple[str, int], None] = {}

    @property
    def version(self) -> int:
        """The newest version of the journal."""
        return self.transitions[-1].version if self.transitions else 0

    @property
    def removed(self) -> int:
        """How many rows at the beginning of the journal were removed."""
        return self.transitions[0].version - 1 if self.transitions else 0

    def rows_after(self, version: int) -> list[Transition]:
        """The rows after `version`. What is left of a beginning that is being removed tells nothing: it is left out."""
        if self.removed and not is_compacted(self.transitions[0].events):
            version = max(version, self.compacted_version - 1)
        return self.transitions[max(0, version - self.removed) :]

    @property
    def is_closed(self) -> bool:
        """Whether the run has ended."""
        return self.head.status in TERMINAL_RUN_STATUSES

    @property
    def is_continued(self) -> bool:
        """Whether another run continues this one, and gets what is sent here."""
        return self.head.status == "continued"

    def commit_id(self, version: int) -> uuid.UUID | None:
        """Whose commit wrote `version`; None when nobody's did."""
        index = version - 1 - self.removed
        return self.transitions[index].commit_id if 0 <= index < len(self.transitions) else None

    def read_head(self) -> Head:
        """The head as a value of the reader's own."""
        attributes = msgspec.json.decode(self.search_attributes)
        return msgspec.structs.replace(self.head, search_attributes=attributes)

    def read_control(self, request_id: str) -> Control | None:
        """A request, or None."""
        stored = self.controls.get(request_id)
        return None if stored is None else _CONTROL_DECODER.decode(stored)

    def read_waiting_controls(self) -> tuple[Control, ...]:
        """Requests that wait, in order."""
        return tuple(_CONTROL_DECODER.decode(self.controls[key]) for key in self.waiting_controls)

    def read_attempts(self, keys: Iterable[tuple[str, int]]) -> tuple[AttemptRow, ...]:
        """Attempt rows in the order of `keys`."""
        return tuple(_ATTEMPT_DECODER.decode(self.attempts[key]) for key in keys)

    def load(self, messages: tuple[Message, ...]) -> LoadedRun:
        """All that a cold coordinator needs; `messages` are those that wait for the run."""
        snapshot = self.snapshots.get(FOLD_REVISION)
        tail = self.rows_after(max(0, self.compacted_version - 1, snapshot.version if snapshot else 0))
        loaded = LoadedRun(
            head=self.read_head(),
            snapshot=snapshot,
            tail=tuple(tail),
            payloads=(),
            controls=self.read_waiting_controls(),
            attempts=self.read_attempts(self.waiting_attempts),
            messages=messages,
        )
        return msgspec.structs.replace(loaded, payloads=self.read_payloads(needed_values(loaded)))

    def inputs(self, messages: tuple[Message, ...]) -> RunInputs:
        """What waits for the run, and the payloads that it names."""
        attempts = self.read_attempts(self.waiting_attempts)
        return RunInputs(
            head_version=self.version,
            controls=self.read_waiting_controls(),
            attempts=attempts,
            messages=messages,
            payloads=self.read_payloads(named_by_inputs(attempts, messages)),
        )

    def read_payloads(self, hashes: Iterable[str]) -> tuple[Payload, ...]:
        """Those of the large values that are there, in order of hash."""
        return tuple(Payload(hash, self.payloads[hash]) for hash in sorted(hashes) if hash in self.payloads)

    def apply(self, commit: Commit) -> Transition | None:
        """Write a commit that was judged. The journal row, or None for dispositions alone."""
        self.dispose(commit)
        if not commit.version:
            return None
        transition = Transition(
            run_id=commit.run_id,
            version=commit.version,
            commit_id=commit.commit_id,
            at_us=commit.at_us,
            events=commit.events,
            hash=commit.hash,
        )
        self.add_transition(transition)
        self.add_payloads(commit.payloads)
        if commit.timer is not None:
            self.due_at_us = commit.timer.due_at_us
        if commit.head is not None:
            self.head = msgspec.structs.replace(
                self.head,
                status=commit.head.status,
                ended_at_us=commit.head.ended_at_us,
                error_type=commit.head.error_type,
                successor_run_id=commit.head.successor_run_id,
                compensated=commit.head.compensated,
                updated_at_us=commit.at_us,
            )
        return transition

    def add_transition(self, transition: Transition) -> None:
        """Append a row."""
        self.transitions.append(transition)
        if is_compacted(transition.events):
            self.compacted_version = transition.version

    def remove_compacted(self, before_us: int, limit: int, message_texts: Iterable[bytes]) -> list[Transition]:
        """Remove rows that another one stands for, the oldest first, and with the last one what only they named."""
        until = min(self.compacted_version - 1 - self.removed, limit)
        gone = [row for row in self.transitions[: max(0, until)] if row.at_us < before_us]
        del self.transitions[: len(gone)]
        if gone and gone[-1].version == self.compacted_version - 1:
            texts = [*(row.events for row in self.transitions), *self.attempts.values(), *message_texts]
            named = {hash for text in texts for hash in named_in(text)}
            self.payloads = {hash: text for hash, text in self.payloads.items() if hash in named}
        return gone

    def dispose(self, commit: Commit) -> None:
        """Write the commit's dispositions; the first one of a row stays."""
        for control in commit.controls:
            if control.request_id in self.waiting_controls:
                del self.waiting_controls[control.request_id]
                stored = _CONTROL_DECODER.decode(self.controls[control.request_id])
                disposed = msgspec.structs.replace(stored, disposition=control.disposition, outcome=control.outcome)
                self.controls[control.request_id] = _ENCODER.encode(disposed)
        for attempt in commit.attempts:
            key = (attempt.node, attempt.generation)
            if key in self.waiting_attempts:
                del self.waiting_attempts[key]
                row = _ATTEMPT_DECODER.decode(self.attempts[key])
                self.attempts[key] = _ENCODER.encode(msgspec.structs.replace(row, disposition=attempt.disposition))

    def add_control(self, control: Control) -> None:
        """Store a request that was accepted."""
        self.controls[control.request_id] = _ENCODER.encode(control)
        self.waiting_controls[control.request_id] = None

    def forward_control(self, control: Control, to_run_id: str) -> None:
        """Note that a request that waits has gone to the run that continues this one."""
        self.waiting_controls.pop(control.request_id, None)
        forwarded = msgspec.structs.replace(control, disposition="forwarded", outcome=to_run_id)
        self.controls[control.request_id] = _ENCODER.encode(forwarded)

    def restore_control(self, control: Control) -> None:
        """Put back a request of an imported run, as it stood."""
        self.controls[control.request_id] = _ENCODER.encode(control)

    def add_attempt(self, row: AttemptRow) -> bool:
        """Store a result; False when there is one of this attempt, which stays."""
        key = (row.node, row.generation)
        if key in self.attempts:
            return False
        self.attempts[key] = _ENCODER.encode(row)
        if not row.disposition:
            self.waiting_attempts[key] = None
        return True

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot unless there is one of its revision that is as new; those of old revisions go."""
        kept = self.snapshots.get(snapshot.fold_revision)
        if kept is None or kept.version < snapshot.version:
            self.snapshots[snapshot.fold_revision] = snapshot
        for revision in [one for one in self.snapshots if one < snapshot.fold_revision - 1]:
            del self.snapshots[revision]

    def add_payloads(self, payloads: Sequence[Payload]) -> None:
        """Store large values; one that is there stays."""
        for payload in payloads:
            self.payloads.setdefault(payload.hash, payload.text)


def poison_in(commit: Commit) -> PoisonedCommitError | None:
    """What a database would refuse in this commit, whatever else it holds."""
    try:
        if commit.version:
            check_json(commit.events, "events")
        if commit.start is not None:
            check_start(commit.run_id, commit.start)
        if commit.head is not None and commit.head.error_type is not None:
            checked_text(commit.head.error_type, "error_type")
        if commit.timer is not None:
            _check_due(commit.timer.due_at_us)
        for payload in commit.payloads:
            check_json(payload.text, "payload")
        for control in commit.controls:
            checked_text(control.outcome, "outcome")
        for new in commit.new_runs:
            check_new_run(new)
        check_parts(commit)
    except ValueRefusedError as refusal:
        return PoisonedCommitError(commit.run_id, commit.version, refusal.what, refusal.reason)
    return None


def _check_due(due_at_us: int | None) -> None:
    if due_at_us is not None and not 0 <= due_at_us <= _MAX_INTEGER:
        raise ValueRefusedError("due_at_us", "", f"{due_at_us} is no time in microseconds within 64 bits")


def check_new_run(new: NewRun) -> None:
    """Of a run that another one's commit starts. Raises ValueRefusedError."""
    check_json(new.events, "events of a new run")
    check_start(new.run_id, new.start)
    _check_due(new.due_at_us)
    for payload in new.payloads:
        check_json(payload.text, "payload of a new run")


def check_start(run_id: str, start: HeadStart) -> None:
    """Of the head of a new run. Raises ValueRefusedError."""
    related = (("run_id", run_id), ("parent_run_id", start.parent_run_id), ("root_run_id", start.root_run_id))
    for what, related_id in related:
        if related_id is not None and not is_run_id(related_id):
            raise ValueRefusedError(what, "", "it is no UUID in lower case with hyphens")
    for what, key in (
        ("tenant", start.tenant),
        ("definition", start.definition),
        ("key", start.key),
        ("parent_node", start.parent_node),
    ):
        if key is not None:
            checked_key(key, what)
    checked_text(start.manifest_hash, "manifest_hash")
    checked_text(start.error_type or "", "error_type")
    checked_value(start.search_attributes, "search_attributes")


def _stored_head(run_id: str, start: HeadStart, updated_at_us: int) -> Head:
    return Head(
        run_id=run_id,
        tenant=start.tenant,
        definition=start.definition,
        manifest_hash=start.manifest_hash,
        status=start.status,
        started_at_us=start.started_at_us,
        updated_at_us=updated_at_us,
        ended_at_us=start.ended_at_us,
        key=start.key,
        parent_run_id=start.parent_run_id,
        parent_node=start.parent_node,
        root_run_id=start.root_run_id,
        chain_run_id=start.chain_run_id,
        iteration=start.iteration,
        successor_run_id=start.successor_run_id,
        compensated=start.compensated,
        error_type=start.error_type,
    )
