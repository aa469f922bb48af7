"""The columns of what continues runs as others: the latest run of each chain, and where inputs go. Pure."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ductor.journal.commit import Commit

Columns = dict[str, list[Any]]
"""Values of every commit in the batch by column; what a column holds is its own type."""


def chain_parts(commits: Sequence[Commit]) -> dict[str, Columns]:
    """The parts that these commits, sorted by run id, need."""
    forwarding = [commit for commit in commits if commit.forwards_to]
    if not forwarding:
        return {}
    parts = {"forwards": _forwards(forwarding)}
    chains = sorted(
        (
            (new.start.chain_run_id, commit.commit_id, new.run_id)
            for commit in forwarding
            for new in commit.new_runs
            if new.run_id == commit.forwards_to
        ),
        key=itemgetter(0),
    )
    if chains:
        parts["chains"] = {
            "chain_chain_run_id": [chain_run_id for chain_run_id, _, _ in chains],
            "chain_commit_id": [commit_id for _, commit_id, _ in chains],
            "chain_latest_run_id": [run_id for _, _, run_id in chains],
        }
    return parts


def _forwards(commits: Sequence[Commit]) -> Columns:
    messages = [(commit.run_id, message.message_id) for commit in commits for message in commit.messages]
    controls = [(commit.run_id, control.request_id) for commit in commits for control in commit.controls]
    return {
        "forward_run_id": [commit.run_id for commit in commits],
        "forward_commit_id": [commit.commit_id if commit.version else None for commit in commits],
        "forward_version": [commit.version or None for commit in commits],
        "forward_to_run_id": [commit.forwards_to for commit in commits],
        "but_message_run_id": [run_id for run_id, _ in messages],
        "but_message_message_id": [message_id for _, message_id in messages],
        "but_control_run_id": [run_id for run_id, _ in controls],
        "but_control_request_id": [request_id for _, request_id in controls],
    }
