"""The same random story told to both stores: every answer and everything that can be read afterwards must agree."""

from random import Random
from typing import Any

import pytest

from ductor.journal.commit import (
    AttemptDisposition,
    Commit,
    CommitAnswer,
    ControlDisposition,
    HeadStart,
    HeadUpdate,
    Payload,
    Refused,
    TimerUpdate,
)
from ductor.journal.memory import MemoryStore
from ductor.journal.postgres import PostgresStore
from ductor.journal.records import AttemptRow, Control, ControlReceipt, LoadedRun, RunFilter, Snapshot
from ductor.journal.state import FOLD_REVISION
from ductor.journal.store import Store
from tests.contracts.writers import EVENTS, START_US, ids, send_all, whole_feed

STORIES = 12
BATCHES = 25
COMMITS_IN_BATCH = 6
STATUSES = ["pending", "running", "waiting", "completed", "failed"]
NODES = ["pay", "größe"]
REQUESTS = ["request-1", "request-2", "request-3"]


class Story:
    """What happens to a few runs, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.run_ids = [ids.run_id() for _ in range(4)]
        self.sent: list[Commit] = []

    def batch(self) -> list[Commit]:
        """Commits to send at once: new ones, old ones again, two of one version, holes, poison."""
        keys = ["key-1", "key-2", None, None, None]
        return [self._commit(keys) for _ in range(self.random.randint(1, COMMITS_IN_BATCH))]

    def _commit(self, keys: list[str | None]) -> Commit:
        random = self.random
        if self.sent and random.random() < 0.2:
            return random.choice(self.sent)
        version = random.choice([0, 1, 1, 2, 2, 3, 3, 4, 5, 6])
        fields: dict[str, Any] = {}
        if version == 1 and random.random() < 0.9:
            # one start of a key in a batch: which of two would win is nobody's promise
            key = keys.pop(random.randrange(len(keys))) if keys else None
            fields["start"] = HeadStart(
                tenant="acme",
                definition="order",
                manifest_hash="m1",
                status=random.choice(STATUSES),  # type: ignore[arg-type]
                started_at_us=START_US,
                key=key,
                search_attributes={"n": random.choice([1, 1.0, 2**70])},
            )
        commit = Commit(
            run_id=random.choice(self.run_ids),
            version=version,
            commit_id=ids.commit_id(),
            at_us=START_US + random.randint(0, 9),
            events=b"[" if random.random() < 0.05 and version else EVENTS,
            hash=random.randbytes(32),
            **fields,
            **self._parts(),
        )
        self.sent.append(commit)
        return commit

    def _parts(self) -> dict[str, Any]:
        random = self.random
        parts: dict[str, Any] = {}
        if random.random() < 0.5:
            parts["head"] = HeadUpdate(
                status=random.choice(STATUSES),  # type: ignore[arg-type]
                error_type=random.choice([None, "Declined"]),
            )
        if random.random() < 0.5:
            parts["timer"] = TimerUpdate(random.choice([None, START_US + random.randint(0, 9)]))
        if random.random() < 0.3:
            parts["payloads"] = (Payload(random.choice(["ab12", "cd34"]), b"%d" % random.randint(0, 9)),)
        if random.random() < 0.4:
            disposition = ControlDisposition(random.choice(REQUESTS), random.choice(["applied", "refused"]), "why")
            parts["controls"] = (disposition,)
        if random.random() < 0.4:
            parts["attempts"] = (AttemptDisposition(random.choice(NODES), random.randint(1, 2), "superseded"),)
        return parts

    def control(self) -> Control:
        """A request to one of the runs."""
        return Control(
            run_id=self.random.choice(self.run_ids),
            request_id=self.random.choice(REQUESTS),
            kind=self.random.choice(["cancel", "redrive"]),
            arguments={"n": self.random.randint(0, 9)},
            requested_at_us=START_US,
        )

    def attempt(self) -> AttemptRow:
        """A result for one of the runs."""
        return AttemptRow(
            run_id=self.random.choice(self.run_ids),
            node=self.random.choice(NODES),
            generation=self.random.randint(1, 2),
            outcome="succeeded",
            output=self.random.randint(0, 9),
        )

    def snapshot(self) -> Snapshot:
        """A snapshot of one of the runs."""
        return Snapshot(
            run_id=self.random.choice(self.run_ids),
            version=self.random.randint(1, 4),
            fold_revision=FOLD_REVISION + self.random.randint(0, 1),
            state=self.random.randbytes(8),
        )


def comparable(answer: CommitAnswer) -> object:
    """Stores may word a refusal each in its own way."""
    return Refused if isinstance(answer, Refused) else answer


def loaded_parts(loaded: LoadedRun | None) -> object:
    """A loaded run; of payloads and attempt rows the order says nothing."""
    if loaded is None:
        return None
    payloads = sorted(loaded.payloads, key=lambda payload: payload.hash)
    attempts = sorted(loaded.attempts, key=lambda row: (row.node, row.generation))
    return repr(loaded.head), loaded.snapshot, loaded.tail, payloads, repr(loaded.controls), attempts


async def everything(store: Store, story: Story) -> dict[str, object]:
    """All that can be read about the runs of a story."""
    runs = story.run_ids
    return {
        "loads": [loaded_parts(await store.load(run_id)) for run_id in runs],
        "heads": [repr(head) for head in await store.heads(RunFilter())],
        "failed": [head.run_id for head in await store.heads(RunFilter(statuses=("failed",), limit=2))],
        "histories": [list(await store.history(run_id, limit=3)) for run_id in runs],
        "attempts": [list(await store.attempts(run_id)) for run_id in runs],
        "controls": [repr(await store.control(run_id, request)) for run_id in runs for request in REQUESTS],
        "keys": [await store.find_start_key("acme", "order", key) for key in ("key-1", "key-2")],
        "recover": list(await store.runs_to_recover(None, 10)),
        "wake": sorted(await store.runs_to_wake(START_US + 5, 10)),
        "next_due": await store.next_due_us(),
        # runs of one batch may stand in any order, the rows of one run may not
        "feed": sorted((row.transition.run_id, row.transition.version) for row in await whole_feed(store)),
        "feed_by_run": [
            [row.transition for row in await whole_feed(store) if row.transition.run_id == run_id] for run_id in runs
        ],
    }


@pytest.mark.parametrize("seed", range(STORIES))
async def test_both_stores_tell_the_same_story(memory_store: MemoryStore, postgres_store: PostgresStore, seed: int):
    story = Story(seed)
    seen: set[str] = set()
    for _ in range(BATCHES):
        batch, control, attempt, snapshot = story.batch(), story.control(), story.attempt(), story.snapshot()
        told: list[tuple[list[object], ControlReceipt | None]] = []
        for store in (memory_store, postgres_store):
            answers = [comparable(answer) for answer in await send_all(store, batch)]
            receipt = await store.request_control(control)
            if await store.head(attempt.run_id) is not None:
                await store.append_attempt(attempt)
            if await store.head(snapshot.run_id) is not None:
                await store.save_snapshot(snapshot)
            told.append((answers, receipt))
        assert told[0] == told[1]
        seen |= {getattr(answer, "__name__", type(answer).__name__) for answer in told[0][0]}
    in_memory, in_postgres = await everything(memory_store, story), await everything(postgres_store, story)
    for name, found in in_memory.items():
        assert in_postgres[name] == found, name
    assert {"Appended", "Conflict"} <= seen
