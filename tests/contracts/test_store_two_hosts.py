"""Two hosts on one store: neither may believe what only one of them can have done."""

import asyncio

from ductor.journal.commit import Appended, Commit, CommitAnswer, Conflict, HeadUpdate, StartKeyTaken
from ductor.journal.ids import SystemIds
from ductor.journal.records import FeedEntry, FeedPosition
from ductor.journal.store import Store
from tests.contracts.writers import START_US, RunWriter, send, send_all, send_well, started, whole_feed

RUNS = 40
ids = SystemIds()


async def _from_both(
    store: Store, second_store: Store, ours: list[Commit], theirs: list[Commit]
) -> list[tuple[CommitAnswer, CommitAnswer]]:
    """Send both lists at once; the answers in pairs."""
    answers = await asyncio.gather(send_all(store, ours), send_all(second_store, theirs))
    return list(zip(*answers, strict=True))


async def test_one_of_two_hosts_writes_a_version(store: Store, second_store: Store):
    runs = [await started(store) for _ in range(RUNS)]
    ours = [run.commit(version=2) for run in runs]
    theirs = [run.commit(version=2) for run in reversed(runs)]
    pairs = await _from_both(store, second_store, ours, theirs)
    answers = {commit.commit_id: answer for commit, (answer, _) in zip(ours, pairs, strict=True)}
    answers |= {commit.commit_id: answer for commit, (_, answer) in zip(theirs, pairs, strict=True)}

    for run in runs:
        contenders = [commit for commit in ours + theirs if commit.run_id == run.run_id]
        (row,) = await second_store.history(run.run_id, after_version=1)
        for commit in contenders:
            is_winner = row.commit_id == commit.commit_id
            assert answers[commit.commit_id] == (Appended(2) if is_winner else Conflict(run.run_id, 2))


async def test_one_of_two_hosts_starts_for_a_key(store: Store, second_store: Store):
    keys = [f"order-{n}" for n in range(RUNS)]
    ours, theirs = [RunWriter() for _ in keys], [RunWriter() for _ in keys]
    pairs = await _from_both(
        store,
        second_store,
        [run.start(key=key) for run, key in zip(ours, keys, strict=True)],
        [run.start(key=key) for run, key in zip(theirs, keys, strict=True)],
    )
    for our_run, their_run, answers in zip(ours, theirs, pairs, strict=True):
        assert answers in [
            (Appended(1), StartKeyTaken(our_run.run_id)),
            (StartKeyTaken(their_run.run_id), Appended(1)),
        ]
        loser = their_run if answers[0] == Appended(1) else our_run
        assert await store.head(loser.run_id) is None
        assert list(await second_store.history(loser.run_id)) == []


async def test_one_of_two_hosts_starts_a_run(store: Store, second_store: Store):
    run_ids = [ids.run_id() for _ in range(RUNS)]
    pairs = await _from_both(
        store,
        second_store,
        [RunWriter(run_id).start(definition="ours") for run_id in run_ids],
        [RunWriter(run_id).start(definition="theirs", key=run_id) for run_id in reversed(run_ids)],
    )
    ours = {run_id: answer for run_id, (answer, _) in zip(run_ids, pairs, strict=True)}
    theirs = {run_id: answer for run_id, (_, answer) in zip(reversed(run_ids), pairs, strict=True)}
    for run_id in run_ids:
        head = await store.head(run_id)
        assert head is not None
        assert (ours[run_id], theirs[run_id]) == (
            (Appended(1), Conflict(run_id, 1)) if head.definition == "ours" else (Conflict(run_id, 1), Appended(1))
        )
        key_owner = await store.find_start_key("acme", "theirs", run_id)
        assert key_owner == (run_id if head.definition == "theirs" else None)


async def test_a_commit_taken_to_another_host_is_written_once(store: Store, second_store: Store):
    """The connection broke, and the commit is sent through another one while the first may still be under way."""
    runs = [RunWriter() for _ in range(RUNS)]
    starts = [run.start(key=run.run_id) for run in runs]
    assert await _from_both(store, second_store, starts, starts) == [(Appended(1), Appended(1))] * RUNS
    ends = [run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US)) for run in runs]
    assert await _from_both(store, second_store, ends, ends[::-1]) == [(Appended(2), Appended(2))] * RUNS
    assert len(await whole_feed(store)) == 2 * RUNS


async def test_what_one_host_was_told_the_other_sees(store: Store, second_store: Store):
    run = await started(store, key="order-7")
    await send_well(second_store, run.commit())
    assert await send(store, run.commit()) == Appended(3)
    assert [row.version for row in await second_store.history(run.run_id)] == [1, 2, 3]
    receipt = await second_store.request_control(run.control())
    assert receipt is not None
    again = await store.request_control(run.control())
    assert again is not None
    assert (receipt.verdict, again.verdict) == ("accepted", "duplicate")


async def test_a_reader_of_the_feed_misses_nothing_while_hosts_write(store: Store, second_store: Store):
    runs = [RunWriter() for _ in range(RUNS)]
    is_written = asyncio.Event()

    async def write() -> None:
        for round_number in range(10):
            commits = [run.commit() if round_number else run.start() for run in runs]
            await asyncio.gather(send_all(store, commits[::2]), send_all(second_store, commits[1::2]))
        is_written.set()

    async def read() -> list[FeedEntry]:
        entries: list[FeedEntry] = []
        while True:
            was_written = is_written.is_set()
            page = await store.feed(entries[-1].position if entries else FeedPosition(), 7)
            entries.extend(page)
            if was_written and not page:
                return entries
            await asyncio.sleep(0)

    _, entries = await asyncio.gather(write(), read())
    assert [entry.position for entry in entries] == sorted({entry.position for entry in entries})
    seen = {run.run_id: [e.transition.version for e in entries if e.transition.run_id == run.run_id] for run in runs}
    assert seen == {run.run_id: list(range(1, 11)) for run in runs}
    assert entries == await whole_feed(second_store)
