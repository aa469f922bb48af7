"""The columns of what ticks write for those that wait: messages, event waits, inbox rows, digests, events. Pure."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from ductor.journal.admission import check_parts
from ductor.journal.codec import encode_value
from ductor.journal.commit import Commit
from ductor.journal.events import RunStatus
from ductor.journal.postgres.rows import json_text

Columns = dict[str, list[Any]]
"""Values of every commit in the batch by column; what a column holds is its own type."""

Part = TypeVar("Part")


def waiting_parts(commits: Sequence[Commit]) -> dict[str, Columns]:
    """The parts that these commits need, sorted by primary key.

    Raises ValueRefusedError for what no store takes.
    """
    concerned = [commit for commit in commits if _is_concerned(commit)]
    parts: dict[str, Columns] = {}
    if not concerned:
        return parts
    for commit in concerned:
        check_parts(commit)
    if any(commit.messages for commit in concerned):
        parts["messages"] = _messages(concerned)
    # what follows belongs to a journal row, and does not go without it
    rows = [commit for commit in concerned if commit.version]
    for part, fields, fill in _PARTS_OF_ROWS:
        if any(getattr(commit, field) for commit in rows for field in fields):
            parts[part] = fill(rows)
    return parts


def _is_concerned(commit: Commit) -> bool:
    return bool(
        commit.messages
        or commit.waits
        or commit.waits_gone
        or commit.inbox
        or commit.inbox_gone
        or commit.digests
        or commit.digests_gone
        or commit.leases
        or commit.leases_gone
        or commit.forwards_to
        or commit.published
        or commit.sent
        or commit.sent_controls
    )


def _of_all(commits: Sequence[Commit], of: Callable[[Commit], Sequence[Part]]) -> list[tuple[Commit, Part]]:
    return [(commit, part) for commit in commits for part in of(commit)]


def _messages(commits: Sequence[Commit]) -> Columns:
    found = _of_all(commits, lambda commit: sorted(commit.messages, key=lambda message: message.message_id))
    return {
        "message_run_id": [commit.run_id for commit, _ in found],
        "message_commit_id": [commit.commit_id if commit.version else None for commit, _ in found],
        "message_version": [commit.version or None for commit, _ in found],
        "message_message_id": [message.message_id for _, message in found],
        "message_disposition": [message.disposition for _, message in found],
    }


def _sent(commits: Sequence[Commit]) -> Columns:
    # of the messages for one run the order of sending stays: it is that of their positions
    found = sorted(_of_all(commits, lambda commit: commit.sent), key=lambda pair: pair[1].run_id)
    messages = [sent.message for _, sent in found]
    return {
        "sent_run_id": [sent.run_id for _, sent in found],
        "sent_message_id": [message.id for message in messages],
        "sent_commit_id": [commit.commit_id for commit, _ in found],
        "sent_sender_run_id": [commit.run_id for commit, _ in found],
        "sent_tenant": [_tenant(commit) for commit, _ in found],
        "sent_own_status": [_new_status(commit) if sent.run_id == commit.run_id else None for commit, sent in found],
        "sent_kind": [message.kind for message in messages],
        "sent_name": [message.name for message in messages],
        "sent_node": [message.node for message in messages],
        "sent_payload": [json_text(message.payload) for message in messages],
        "sent_payload_ref": [json_text(message.payload_ref) for message in messages],
        "sent_by": [message.by for message in messages],
    }


def _waits_gone(commits: Sequence[Commit]) -> Columns:
    return _gone("waitgone", _of_all(commits, lambda commit: sorted(commit.waits_gone)))


def _waits(commits: Sequence[Commit]) -> Columns:
    found = _of_all(commits, lambda commit: sorted(commit.waits, key=lambda wait: (wait.node, wait.index)))
    return {
        "wait_run_id": [commit.run_id for commit, _ in found],
        "wait_node": [wait.node for _, wait in found],
        "wait_index": [wait.index for _, wait in found],
        "wait_commit_id": [commit.commit_id for commit, _ in found],
        "wait_tenant": [_tenant(commit) for commit, _ in found],
        "wait_name": [wait.name for _, wait in found],
        "wait_since_us": [wait.since_us for _, wait in found],
        "wait_key_path": [wait.key_path for _, wait in found],
        "wait_key_value": [wait.key_value for _, wait in found],
    }


def _inbox_gone(commits: Sequence[Commit]) -> Columns:
    return _gone("inboxgone", _of_all(commits, lambda commit: sorted(commit.inbox_gone)))


def _inbox(commits: Sequence[Commit]) -> Columns:
    found = _of_all(commits, lambda commit: sorted(commit.inbox, key=lambda item: item.node))
    people = [(commit, item.node, person) for commit, item in found for person in sorted({*item.people} or {""})]
    return {
        "inbox_run_id": [commit.run_id for commit, _ in found],
        "inbox_node": [item.node for _, item in found],
        "inbox_commit_id": [commit.commit_id for commit, _ in found],
        "inbox_tenant": [_tenant(commit) for commit, _ in found],
        "inbox_kind": [item.kind for _, item in found],
        "inbox_title": [item.title for _, item in found],
        "inbox_people": [json_text(item.people) for _, item in found],
        "inbox_status": [item.status for _, item in found],
        "inbox_since_us": [item.since_us for _, item in found],
        "inbox_due_at_us": [item.due_at_us for _, item in found],
        "person_run_id": [commit.run_id for commit, _, _ in people],
        "person_node": [node for _, node, _ in people],
        "person_person": [person for _, _, person in people],
        "person_commit_id": [commit.commit_id for commit, _, _ in people],
        "person_tenant": [_tenant(commit) for commit, _, _ in people],
    }


def _digests(commits: Sequence[Commit]) -> Columns:
    found = _of_all(commits, lambda commit: sorted(commit.digests, key=lambda digest: digest.node))
    return _gone("digestgone", _of_all(commits, lambda commit: sorted(commit.digests_gone))) | {
        "digest_run_id": [commit.run_id for commit, _ in found],
        "digest_node": [digest.node for _, digest in found],
        "digest_commit_id": [commit.commit_id for commit, _ in found],
        "digest_generation": [digest.generation for _, digest in found],
        "digest_key": [digest.key for _, digest in found],
        "digest_item": [encode_value(digest.item).decode() for _, digest in found],
        "digest_duration_ms": [digest.duration_ms for _, digest in found],
        "digest_max_items": [digest.max_items for _, digest in found],
    }


def _leases_handed_on(commits: Sequence[Commit]) -> Columns:
    handing = [commit for commit in commits if commit.forwards_to]
    return {
        "leasehanded_run_id": [commit.run_id for commit in handing],
        "leasehanded_commit_id": [commit.commit_id for commit in handing],
        "leasehanded_successor_run_id": [commit.forwards_to for commit in handing],
    }


def _leases(commits: Sequence[Commit]) -> Columns:
    found = _of_all(commits, lambda commit: sorted(commit.leases, key=lambda lease: lease.node))
    return _gone("leasegone", _of_all(commits, lambda commit: sorted(commit.leases_gone))) | {
        "lease_run_id": [commit.run_id for commit, _ in found],
        "lease_node": [lease.node for _, lease in found],
        "lease_commit_id": [commit.commit_id for commit, _ in found],
        "lease_tenant": [_tenant(commit) for commit, _ in found],
        "lease_generation": [lease.generation for _, lease in found],
        "lease_key": [lease.key for _, lease in found],
        "lease_max_holders": [lease.limit for _, lease in found],
    }


def _published(commits: Sequence[Commit]) -> Columns:
    # the order of publishing stays: it is that of their positions
    found = [(event.tenant, commit.commit_id, event) for commit in commits for event in commit.published]
    found.sort(key=itemgetter(0))
    return {
        "published_tenant": [tenant for tenant, _, _ in found],
        "published_event_id": [event.event_id for _, _, event in found],
        "published_commit_id": [commit_id for _, commit_id, _ in found],
        "published_name": [event.name for _, _, event in found],
        "published_payload": [json_text(event.payload) for _, _, event in found],
        "published_source": [event.source for _, _, event in found],
    }


def _gone(prefix: str, found: Sequence[tuple[Commit, str]]) -> Columns:
    return {
        f"{prefix}_run_id": [commit.run_id for commit, _ in found],
        f"{prefix}_node": [node for _, node in found],
        f"{prefix}_commit_id": [commit.commit_id for commit, _ in found],
    }


def _tenant(commit: Commit) -> str | None:
    """The tenant of a run that this commit starts; of others the head says it."""
    return None if commit.start is None else commit.start.tenant


def _new_status(commit: Commit) -> RunStatus | None:
    outcome = commit.head or commit.start
    return None if outcome is None else outcome.status


_PARTS_OF_ROWS: tuple[tuple[str, tuple[str, ...], Callable[[Sequence[Commit]], Columns]], ...] = (
    ("sent", ("sent",), _sent),
    ("waits_gone", ("waits_gone",), _waits_gone),
    ("waits", ("waits",), _waits),
    ("inbox_gone", ("inbox_gone",), _inbox_gone),
    ("inbox", ("inbox",), _inbox),
    ("digests", ("digests", "digests_gone"), _digests),
    ("leases_handed_on", ("forwards_to",), _leases_handed_on),
    ("leases", ("leases", "leases_gone"), _leases),
    ("published", ("published",), _published),
)
"""Name of the part, the fields of a commit that need it, and what fills its columns."""
