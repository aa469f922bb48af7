"""What the contract suite sends to a store: commits of a run, and the ways in which an answer gets lost."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ductor.journal.chain import link
from ductor.journal.commit import Appended, Commit, CommitAnswer, HeadStart
from ductor.journal.ids import SystemIds
from ductor.journal.records import Control, FeedEntry, FeedPosition
from ductor.journal.store import Store

ANSWER_TIMEOUT_S = 30
EVENTS = b'[{"type":"tick_limited"}]'
START_US = 1_767_225_600_000_000

ids = SystemIds()


class RunWriter:
    """Makes the commits of one run, each after the one before.

    Every argument that `commit` takes replaces what it would make up.
    """

    def __init__(self, run_id: str | None = None) -> None:
        self.run_id = run_id or ids.run_id()
        self.version = 0
        self.last_hash = b""

    def start(self, **head: Any) -> Commit:
        """Version 1; arguments that belong to the head go there."""
        fields = {field: head.pop(field) for field in Commit.__struct_fields__ if field in head}
        start = HeadStart(
            **{
                "tenant": "acme",
                "definition": "order",
                "manifest_hash": "m1",
                "status": "running",
                "started_at_us": START_US,
                **head,
            }
        )
        return self.commit(start=start, **fields)

    def commit(self, **fields: Any) -> Commit:
        """The next version."""
        version = fields.pop("version", self.version + 1)
        at_us = fields.pop("at_us", START_US + version)
        events = fields.pop("events", EVENTS)
        hash = link(self.last_hash, self.run_id, version, at_us, events)
        self.version, self.last_hash = version, hash
        commit_id = fields.pop("commit_id", None) or ids.commit_id()
        return Commit(
            run_id=self.run_id, version=version, commit_id=commit_id, at_us=at_us, events=events, hash=hash, **fields
        )

    def dispositions(self, **fields: Any) -> Commit:
        """A commit without a journal row."""
        return Commit(
            run_id=self.run_id, version=0, commit_id=ids.commit_id(), at_us=START_US, events=b"", hash=b"", **fields
        )

    def control(self, request_id: str = "request-1", **fields: Any) -> Control:
        """A request to this run."""
        return Control(**{"run_id": self.run_id, "request_id": request_id, "kind": "cancel", **fields})


async def send(store: Store, commit: Commit) -> CommitAnswer:
    """Queue one commit and wait for its answer."""
    return (await send_all(store, [commit]))[0]


async def send_all(store: Store, commits: Sequence[Commit]) -> list[CommitAnswer]:
    """Queue commits in one go and wait for all answers, in the order of `commits`."""
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[CommitAnswer]] = [loop.create_future() for _ in commits]
    for commit, answer in zip(commits, answers, strict=True):
        store.commit(commit, answer.set_result)
    return await asyncio.wait_for(asyncio.gather(*answers), ANSWER_TIMEOUT_S)


async def send_well(store: Store, *commits: Commit) -> None:
    """Send commits one after another, all of which must be appended."""
    for commit in commits:
        answer = await send(store, commit)
        assert answer == Appended(commit.version), answer


async def started(store: Store, **head: Any) -> RunWriter:
    """A run with version 1 written."""
    run = RunWriter(head.pop("run_id", None))
    await send_well(store, run.start(**head))
    return run


async def send_again_after_answer(store: Store, commit: Commit) -> CommitAnswer:
    """The answer was lost on its way; the same commit is sent again."""
    await send(store, commit)
    return await send(store, commit)


async def send_again_at_once(store: Store, commit: Commit) -> CommitAnswer:
    """The connection broke before anything came back; the same commit is sent while the first may be under way."""
    first, second = await send_all(store, [commit, commit])
    assert first == second
    return second


RESENDS: dict[str, Callable[[Store, Commit], Any]] = {
    "after the answer": send_again_after_answer,
    "while under way": send_again_at_once,
}


async def whole_feed(store: Store, limit: int = 1_000) -> list[FeedEntry]:
    """All that the feed holds, read page by page."""
    entries: list[FeedEntry] = []
    while page := await store.feed(entries[-1].position if entries else FeedPosition(), limit):
        entries.extend(page)
    return entries
