"""Commits for tests of the PostgreSQL store, and how to wait for their answers."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from ductor.journal.commit import Commit, CommitAnswer, HeadStart
from ductor.journal.ids import SystemIds
from ductor.journal.postgres import PostgresStore

WAIT_S = 30.0

_ids = SystemIds()
_times = itertools.count(1)


def start(run_id: str | None = None, *, key: str | None = None, tenant: str = "acme", **parts: Any) -> Commit:
    """A commit that starts a run."""
    head = HeadStart(
        tenant=tenant, definition="order", manifest_hash="m", status="running", started_at_us=1_000_000, key=key
    )
    return tick(run_id or _ids.run_id(), 1, start=head, **parts)


def tick(run_id: str, version: int, *, events: bytes = b"[]", **parts: Any) -> Commit:
    """A commit of a run's next version."""
    return Commit(
        run_id=run_id,
        version=version,
        commit_id=_ids.commit_id(),
        at_us=1_000_000 + next(_times),
        events=events,
        hash=b"\x00" * 32,
        **parts,
    )


def send(store: PostgresStore, commit: Commit) -> "asyncio.Future[CommitAnswer]":
    """Queue a commit; the future is its answer."""
    future: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()
    store.commit(commit, future.set_result)
    return future


async def answered(store: PostgresStore, *commits: Commit) -> list[CommitAnswer]:
    """Queue commits at once and wait for all answers."""
    async with asyncio.timeout(WAIT_S):
        return list(await asyncio.gather(*(send(store, commit) for commit in commits)))


async def started_runs(store: PostgresStore, count: int) -> list[str]:
    """Ids of new runs at version 1, in order of id."""
    commits: Sequence[Commit] = [start() for _ in range(count)]
    await answered(store, *commits)
    return sorted(commit.run_id for commit in commits)
