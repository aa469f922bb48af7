"""The columns of the runs that ticks start, and of the controls that they send to others. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from ductor.journal.child_reports import nothing_to_undo
from ductor.journal.commit import Commit, NewRun
from ductor.journal.errors import ValueRefusedError

Columns = dict[str, list[Any]]

_encode = msgspec.json.Encoder().encode


def children_parts(commits: Sequence[Commit]) -> dict[str, Columns]:
    """The parts that these commits need. Without a journal row nothing is started or sent.

    Raises ValueRefusedError for bytes that are not UTF-8.
    """
    rows = [commit for commit in commits if commit.version]
    parts: dict[str, Columns] = {}
    starting = [(commit, new) for commit in rows if commit.new_runs for new in commit.new_runs]
    if starting:
        parts |= _new_runs(starting)
    if any(commit.sent_controls for commit in rows):
        parts["sent_controls"] = _sent_controls(rows)
        undos = _undo_answers(rows)
        if undos["undo_run_id"]:
            parts["undo_answers"] = undos
    return parts


def size_bytes(new: NewRun) -> int:
    """How much a new run adds to a batch, by its large parts."""
    return len(new.events) + sum(len(payload.text) for payload in new.payloads)


def _new_runs(starting: Sequence[tuple[Commit, NewRun]]) -> dict[str, Columns]:
    starts = [new.start for _, new in starting]
    claimed = [start.key if start.chain_run_id is None else None for start in starts]
    parts: dict[str, Columns] = {
        "new_runs": {
            "child_run_id": [new.run_id for _, new in starting],
            "child_commit_id": [commit.commit_id for commit, _ in starting],
            "child_tenant": [start.tenant for start in starts],
            "child_definition": [start.definition for start in starts],
            "child_key": [start.key for start in starts],
            "child_claimed_key": claimed,
            "child_manifest_hash": [start.manifest_hash for start in starts],
            "child_status": [start.status for start in starts],
            "child_started_at_us": [new.at_us for _, new in starting],
            "child_parent_run_id": [start.parent_run_id for start in starts],
            "child_parent_node": [start.parent_node for start in starts],
            "child_root_run_id": [start.root_run_id for start in starts],
            "child_chain_run_id": [start.chain_run_id for start in starts],
            "child_iteration": [start.iteration for start in starts],
            "child_search_attributes": [_encode(start.search_attributes).decode() for start in starts],
            "child_events": [_text(new.events) for _, new in starting],
            "child_hash": [new.hash for _, new in starting],
        }
    }
    if any(key is not None for key in claimed):
        parts["new_keys"] = parts["refused_runs"] = {}
    payloads = sorted((new.run_id, payload.hash, payload.text) for _, new in starting for payload in new.payloads)
    if payloads:
        parts["new_payloads"] = {
            "childpayload_run_id": [run_id for run_id, _, _ in payloads],
            "childpayload_hash": [hash for _, hash, _ in payloads],
            "childpayload_payload": [_text(text) for _, _, text in payloads],
        }
    due = sorted((new.run_id, new.due_at_us) for _, new in starting if new.due_at_us is not None)
    if due:
        parts["new_timers"] = {
            "childtimer_run_id": [run_id for run_id, _ in due],
            "childtimer_due_at_us": [due_at_us for _, due_at_us in due],
        }
    return parts


def _sent_controls(commits: Sequence[Commit]) -> Columns:
    found = [(commit, control) for commit in commits for control in commit.sent_controls]
    return {
        "sentcontrol_run_id": [control.run_id for _, control in found],
        "sentcontrol_request_id": [control.request_id for _, control in found],
        "sentcontrol_commit_id": [commit.commit_id for commit, _ in found],
        "sentcontrol_sender_run_id": [commit.run_id for commit, _ in found],
        "sentcontrol_tenant": [None if commit.start is None else commit.start.tenant for commit, _ in found],
        "sentcontrol_kind": [control.kind for _, control in found],
        "sentcontrol_arguments": [_encode(control.arguments).decode() for _, control in found],
        "sentcontrol_by": [control.by for _, control in found],
    }


def _undo_answers(commits: Sequence[Commit]) -> Columns:
    found = [
        (commit, control, message)
        for commit in commits
        for control in commit.sent_controls
        if (message := nothing_to_undo(control)) is not None
    ]
    return {
        "undo_run_id": [control.run_id for _, control, _ in found],
        "undo_commit_id": [commit.commit_id for commit, _, _ in found],
        "undo_sender_run_id": [commit.run_id for commit, _, _ in found],
        "undo_message_id": [message.id for _, _, message in found],
        "undo_node": [message.node for _, _, message in found],
        "undo_payload": [_encode(message.payload).decode() for _, _, message in found],
        "undo_by": [message.by for _, _, message in found],
    }


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueRefusedError("new run", "", str(error)) from error
