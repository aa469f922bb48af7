"""Starting a run inside the caller's own transaction."""

from ductor.journal.commit import Appended, Commit, CommitAnswer, Conflict
from ductor.journal.postgres.batch import make_batch
from ductor.journal.postgres.callers import CallersConnection
from ductor.journal.postgres.failures import classify
from ductor.journal.postgres.outcomes import loser_answers, loser_arguments
from ductor.journal.postgres.statements import RESOLVE_LOSERS, commit_statement

START_ATTEMPTS = 3
"""How often a start is tried that loses in mid-statement: each time somebody else has just won its key."""


async def start_on(connection: CallersConnection, commit: Commit) -> CommitAnswer:
    """Write a start in the caller's transaction: the run exists once that commits, and a host that looks for `pending`
    runs takes it up. Outside of a transaction it is one of its own.

    Raises ValueRefusedError, and what the driver raises; the caller's transaction is as it was.
    """
    if commit.start is None or commit.version != 1:
        return Conflict(commit.run_id, commit.version)
    batch = make_batch([commit])
    statement = commit_statement(batch.parts)
    attempt = 0
    while True:
        try:
            async with connection.transaction():
                (row,) = await connection.fetch(statement.text, *statement.arguments(batch.columns))
            break
        except Exception as error:
            attempt += 1
            if classify(error) != "again" or attempt == START_ATTEMPTS:
                raise
    if row["won_count"]:
        return Appended(commit.version)
    rows = await connection.fetch(RESOLVE_LOSERS.text, *loser_arguments([commit]))
    return loser_answers([commit], rows)[commit.run_id]
