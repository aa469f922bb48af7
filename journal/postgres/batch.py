"""Commits of many runs as the columns of one statement. Pure."""

import uuid
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from ductor.journal.commit import Commit
from ductor.journal.errors import ValueRefusedError
from ductor.journal.postgres.chain_parts import chain_parts
from ductor.journal.postgres.children_parts import children_parts
from ductor.journal.postgres.children_parts import size_bytes as new_run_bytes
from ductor.journal.postgres.waiting_parts import Columns, waiting_parts

ROW_FIELDS = ("run_id", "version", "commit_id", "at_us", "events", "hash")
"""The fields of a commit that its journal row is made of, before those that say what is written beside it."""

_astuple = msgspec.structs.astuple
_encode = msgspec.json.Encoder().encode
_run_id = attrgetter("run_id")
_ROW_FIELD_COUNT = len(ROW_FIELDS)
_ROW_ALONE = _astuple(Commit(run_id="", version=1, commit_id=uuid.UUID(int=0), at_us=0, events=b"", hash=b""))[
    _ROW_FIELD_COUNT:
]


class Batch(msgspec.Struct, frozen=True):
    """What one statement sends: which parts it needs, the columns, and how many journal rows should win. `is_lone`: it
    is one commit, with a row."""

    parts: frozenset[str]
    columns: Columns
    row_count: int
    is_lone: bool


def make_batch(commits: Sequence[Commit]) -> Batch:
    """The columns of `commits`, which belong to different runs, sorted by primary key.

    Raises ValueRefusedError for bytes that are not UTF-8 and for what no store takes.
    """
    commits = sorted(commits, key=_run_id)
    rows = [commit for commit in commits if commit.version]
    columns: Columns = {
        "row_run_id": [commit.run_id for commit in rows],
        "row_version": [commit.version for commit in rows],
        "row_commit_id": [commit.commit_id for commit in rows],
        "row_at_us": [commit.at_us for commit in rows],
        "row_events": _texts([commit.events for commit in rows], "events"),
        "row_hash": [commit.hash for commit in rows],
    }
    is_lone = len(commits) == len(rows) == 1
    commits = with_more_than_a_row(commits)
    if not commits:
        return Batch(frozenset(), columns, len(rows), is_lone)
    parts = set()
    starts = [commit for commit in commits if commit.start is not None]
    if starts:
        parts.add("starts")
        if any(commit.start.key is not None for commit in starts if commit.start is not None):
            parts.add("keys")
        columns |= _starts(starts)
    heads = [commit for commit in commits if commit.head is not None and commit.start is None]
    if heads:
        parts.add("heads")
        columns |= _heads(heads)
    timers = [commit for commit in commits if commit.timer is not None]
    if timers:
        parts.add("timers")
        columns |= _timers(timers)
    if any(commit.payloads or commit.sent for commit in commits):
        large = _payloads(commits)
        if large["payload_hash"]:
            parts.add("payloads")
            columns |= large
    for part, fill in (("controls", _controls), ("attempts", _attempts)):
        concerned = [commit for commit in commits if getattr(commit, part)]
        if concerned:
            parts.add(part)
            columns |= fill(concerned)
    for part, part_columns in (children_parts(commits) | waiting_parts(commits) | chain_parts(commits)).items():
        parts.add(part)
        columns |= part_columns
    return Batch(frozenset(parts), columns, len(rows), is_lone)


def with_more_than_a_row(commits: Sequence[Commit]) -> list[Commit]:
    """The commits that write something beside their journal row; most don't."""
    return [commit for commit in commits if _astuple(commit)[_ROW_FIELD_COUNT:] != _ROW_ALONE]


def size_bytes(commit: Commit) -> int:
    """How much a commit adds to a batch, by its large parts; what it publishes stands in its events too."""
    size = len(commit.events)
    if commit.payloads:
        size += sum(len(payload.text) for payload in commit.payloads)
    if commit.sent:
        size += sum(len(sent.payload.text) for sent in commit.sent if sent.payload is not None)
    if commit.new_runs:
        size += sum(new_run_bytes(new) for new in commit.new_runs)
    return size


def _texts(texts: Sequence[bytes], what: str) -> list[str]:
    try:
        return [text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise ValueRefusedError(what, "", str(error)) from error


def _starts(commits: Sequence[Commit]) -> Columns:
    starts = [commit.start for commit in commits if commit.start is not None]
    # a first tick that already changed the head: the row is written once, as it stands after it
    outcomes = [commit.head or commit.start for commit in commits]
    return {
        "start_run_id": [commit.run_id for commit in commits],
        "start_tenant": [start.tenant for start in starts],
        "start_definition": [start.definition for start in starts],
        "start_key": [start.key for start in starts],
        "start_manifest_hash": [start.manifest_hash for start in starts],
        "start_status": [outcome.status for outcome in outcomes if outcome is not None],
        "start_started_at_us": [start.started_at_us for start in starts],
        "start_updated_at_us": [commit.at_us for commit in commits],
        "start_ended_at_us": [outcome.ended_at_us for outcome in outcomes if outcome is not None],
        "start_parent_run_id": [start.parent_run_id for start in starts],
        "start_parent_node": [start.parent_node for start in starts],
        "start_root_run_id": [start.root_run_id for start in starts],
        "start_error_type": [outcome.error_type for outcome in outcomes if outcome is not None],
        "start_chain_run_id": [start.chain_run_id for start in starts],
        "start_iteration": [start.iteration for start in starts],
        "start_successor_run_id": [start.successor_run_id for start in starts],
        "start_compensated": [outcome.compensated for outcome in outcomes if outcome is not None],
        "start_search_attributes": [_encode(start.search_attributes).decode() for start in starts],
    }


def _heads(commits: Sequence[Commit]) -> Columns:
    heads = [commit.head for commit in commits if commit.head is not None]
    return {
        "head_run_id": [commit.run_id for commit in commits],
        "head_commit_id": [commit.commit_id for commit in commits],
        "head_status": [head.status for head in heads],
        "head_ended_at_us": [head.ended_at_us for head in heads],
        "head_error_type": [head.error_type for head in heads],
        "head_successor_run_id": [head.successor_run_id for head in heads],
        "head_compensated": [head.compensated for head in heads],
        "head_updated_at_us": [commit.at_us for commit in commits],
    }


def _timers(commits: Sequence[Commit]) -> Columns:
    return {
        "timer_run_id": [commit.run_id for commit in commits],
        "timer_commit_id": [commit.commit_id for commit in commits],
        "timer_due_at_us": [commit.timer.due_at_us for commit in commits if commit.timer is not None],
    }


def _payloads(commits: Sequence[Commit]) -> Columns:
    """Large values of the runs themselves, and those that go to other runs with a message."""
    found = [(commit.run_id, payload, commit) for commit in commits for payload in commit.payloads]
    found += [
        (sent.run_id, sent.payload, commit)
        for commit in commits
        for sent in commit.sent
        if sent.payload is not None and commit.version
    ]
    found.sort(key=lambda one: (one[0], one[1].hash))
    return {
        "payload_run_id": [run_id for run_id, _, _ in found],
        "payload_commit_id": [commit.commit_id for _, _, commit in found],
        "payload_hash": [payload.hash for _, payload, _ in found],
        "payload_payload": _texts([payload.text for _, payload, _ in found], "payload"),
    }


def _controls(commits: Sequence[Commit]) -> Columns:
    found = sorted(
        ((commit, control) for commit in commits for control in commit.controls),
        key=lambda pair: (pair[0].run_id, pair[1].request_id),
    )
    return {
        "control_run_id": [commit.run_id for commit, _ in found],
        "control_commit_id": [commit.commit_id if commit.version else None for commit, _ in found],
        "control_version": [commit.version or None for commit, _ in found],
        "control_request_id": [control.request_id for _, control in found],
        "control_disposition": [control.disposition for _, control in found],
        "control_outcome": [control.outcome for _, control in found],
    }


def _attempts(commits: Sequence[Commit]) -> Columns:
    found = sorted(
        ((commit, attempt) for commit in commits for attempt in commit.attempts),
        key=lambda pair: (pair[0].run_id, pair[1].node, pair[1].generation),
    )
    return {
        "attempt_run_id": [commit.run_id for commit, _ in found],
        "attempt_commit_id": [commit.commit_id if commit.version else None for commit, _ in found],
        "attempt_version": [commit.version or None for commit, _ in found],
        "attempt_node": [attempt.node for _, attempt in found],
        "attempt_generation": [attempt.generation for _, attempt in found],
        "attempt_disposition": [attempt.disposition for _, attempt in found],
    }
