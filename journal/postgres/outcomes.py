"""Why commits of a batch did not win: what is asked, in a new snapshot, and what the answer means. Pure."""

from collections.abc import Sequence

from asyncpg import Record

from ductor.journal.commit import Appended, Commit, CommitAnswer, Conflict, StartKeyTaken
from ductor.journal.postgres.statements import RESOLVE_LOSERS


def loser_arguments(losers: Sequence[Commit]) -> list[object]:
    """The arguments of `RESOLVE_LOSERS` for these commits, each of which has a journal row."""
    return RESOLVE_LOSERS.arguments(
        {
            "row_run_id": [commit.run_id for commit in losers],
            "row_version": [commit.version for commit in losers],
            "key_tenant": [commit.start and commit.start.tenant for commit in losers],
            "key_definition": [commit.start and commit.start.definition for commit in losers],
            "key": [commit.start and commit.start.key for commit in losers],
        }
    )


def loser_answers(losers: Sequence[Commit], rows: Sequence[Record]) -> dict[str, CommitAnswer]:
    """What became of them, by run; those that an earlier sending had written already did win."""
    answers: dict[str, CommitAnswer] = {}
    for ordinal, winner, key_run_id in rows:
        commit = losers[ordinal - 1]
        if winner == commit.commit_id:
            answers[commit.run_id] = Appended(commit.version)
        elif winner is None and key_run_id is not None:
            answers[commit.run_id] = StartKeyTaken(key_run_id)
        else:
            answers[commit.run_id] = Conflict(commit.run_id, commit.version)
    return answers
