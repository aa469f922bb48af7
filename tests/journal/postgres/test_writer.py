"""The group-commit writer on a real server: one commit's trouble is its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from ductor.journal.commit import (
    Appended,
    Commit,
    CommitAnswer,
    Conflict,
    HeadUpdate,
    Payload,
    Refused,
    StartKeyTaken,
    TimerUpdate,
)
from ductor.journal.errors import PoisonedCommitError
from ductor.journal.postgres import PostgresStore, WriterLimits, lane
from ductor.journal.postgres.failures import Failure, classify
from ductor.journal.postgres.writer import Writer
from tests.journal.postgres.commits import WAIT_S, answered, send, start, started_runs, tick
from tests.journal.waiting import until
from tests.postgres_fixtures import Database


@pytest.fixture
async def store(database: Database) -> AsyncIterator[PostgresStore]:
    async with PostgresStore(database.dsn) as store:
        yield store


@asynccontextmanager
async def outsider(database: Database, run_id: str, version: int) -> AsyncIterator[asyncpg.Connection]:
    """Somebody's open transaction that holds a version of a run; rolled back in the end unless it was committed."""
    connection = await asyncpg.connect(database.dsn)
    try:
        await connection.execute("BEGIN")
        await take(connection, run_id, version)
        yield connection
        await connection.execute("ROLLBACK")
    finally:
        await connection.close()


async def take(connection: asyncpg.Connection, run_id: str, version: int) -> None:
    await connection.execute(
        "INSERT INTO ductor.eec_workflow_transition (run_id, version, commit_id, at_us, events, hash)"
        " VALUES ($1, $2, gen_random_uuid(), 0, '[]', '')",
        run_id,
        version,
    )


async def transactions(database: Database) -> int:
    """In how many transactions the journal was written."""
    connection = await asyncpg.connect(database.dsn)
    try:
        return int(
            await connection.fetchval("SELECT count(DISTINCT transaction_id) FROM ductor.eec_workflow_transition")
        )
    finally:
        await connection.close()


async def test_commits_queued_together_share_one_transaction(store: PostgresStore, database: Database) -> None:
    runs = await started_runs(store, 50)
    assert await transactions(database) == 1
    assert await answered(store, *(tick(run_id, 2) for run_id in runs)) == [Appended(2)] * 50
    assert await transactions(database) == 2


async def test_batches_are_bounded_in_commits(database: Database) -> None:
    async with PostgresStore(database.dsn, WriterLimits(batch_commits=10)) as store:
        await started_runs(store, 25)
    assert await transactions(database) == 3


async def test_batches_are_bounded_in_bytes_and_one_larger_commit_goes_alone(database: Database) -> None:
    async with PostgresStore(database.dsn, WriterLimits(batch_bytes=1_000)) as store:
        small = [start(events=b"[" + b" " * 400 + b"]") for _ in range(4)]
        large = start(payloads=(Payload("h", b'"' + b"x" * 5_000 + b'"'),))
        assert await answered(store, *small, large) == [Appended(1)] * 5
    assert await transactions(database) == 3


async def test_two_commits_of_one_run_are_judged_one_after_the_other(store: PostgresStore, database: Database) -> None:
    (run_id,) = await started_runs(store, 1)
    answers = await answered(store, tick(run_id, 2), tick(run_id, 2), tick(run_id, 3), tick(run_id, 3))
    assert answers == [Appended(2), Conflict(run_id, 2), Appended(3), Conflict(run_id, 3)]


async def test_while_one_lane_waits_the_other_works_but_not_for_the_same_run(database: Database) -> None:
    async with PostgresStore(database.dsn, WriterLimits(lanes=2, lock_timeout_ms=20_000)) as store:
        held, free = await started_runs(store, 2)
        async with outsider(database, held, 2) as connection:
            first = send(store, tick(held, 2))
            await until(lambda: is_waiting(connection))
            second = send(store, tick(held, 3))
            assert await answered(store, tick(free, 2)) == [Appended(2)]
            assert not first.done()
            assert not second.done()
        async with asyncio.timeout(WAIT_S):
            assert list(await asyncio.gather(first, second)) == [Appended(2), Appended(3)]


async def test_losers_and_winners_of_one_batch_and_nothing_of_a_loser_is_written(store: PostgresStore) -> None:
    runs = await started_runs(store, 3)
    parts: dict[str, Any] = {
        "head": HeadUpdate(status="waiting"),
        "timer": TimerUpdate(5),
        "payloads": (Payload("h", b"1"),),
    }
    answers = await answered(store, tick(runs[0], 2, **parts), tick(runs[1], 3, **parts), tick(runs[2], 2, **parts))
    assert answers == [Appended(2), Conflict(runs[1], 3), Appended(2)]
    loser = await store.load(runs[1])
    assert loser is not None
    assert (loser.head.status, loser.payloads, len(loser.tail)) == ("running", (), 1)
    assert await store.runs_to_wake(5, 10) == [runs[0], runs[2]]


async def test_a_start_that_half_wins_against_another_transaction_leaves_nothing(
    store: PostgresStore, database: Database
) -> None:
    """The key and the head are won, then the first row turns out to be taken: all is undone, its neighbour is not."""
    contested, neighbour = start(key="contested"), start(key="neighbour")
    async with outsider(database, contested.run_id, 1) as connection:
        answers = [send(store, contested), send(store, neighbour)]
        await until(lambda: is_waiting(connection))
        await connection.execute("COMMIT")
        async with asyncio.timeout(WAIT_S):
            assert await asyncio.gather(*answers) == [Conflict(contested.run_id, 1), Appended(1)]
    assert await store.find_start_key("acme", "order", "contested") is None
    assert await store.head(contested.run_id) is None
    assert await store.find_start_key("acme", "order", "neighbour") == neighbour.run_id


async def test_a_lone_start_that_half_wins_against_another_transaction_leaves_nothing(
    store: PostgresStore, database: Database
) -> None:
    contested = start()
    async with outsider(database, contested.run_id, 1) as connection:
        answer = send(store, contested)
        await until(lambda: is_waiting(connection))
        await connection.execute("COMMIT")
        async with asyncio.timeout(WAIT_S):
            assert await answer == Conflict(contested.run_id, 1)
    assert await store.head(contested.run_id) is None


async def test_a_lone_commit_that_loses_leaves_the_head_as_it_is(store: PostgresStore) -> None:
    (run_id,) = await started_runs(store, 1)
    won, lost = (tick(run_id, 2, head=HeadUpdate(status=status)) for status in ("waiting", "failed"))
    assert await answered(store, won) == [Appended(2)]
    assert await answered(store, lost) == [Conflict(run_id, 2)]
    head = await store.head(run_id)
    assert head is not None
    assert head.status == "waiting"


async def is_waiting(connection: asyncpg.Connection, count: int = 1) -> bool:
    await connection.execute("SELECT pg_stat_clear_snapshot()")
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(await connection.fetchval(query) >= count)


async def test_one_key_in_one_batch_starts_one_run(store: PostgresStore) -> None:
    starts = [start(key="same") for _ in range(5)]
    answers = await answered(store, *starts)
    winner = answers.index(Appended(1))
    taken = StartKeyTaken(starts[winner].run_id)
    assert [answer for answer in answers if answer != Appended(1)] == [taken] * 4


async def test_poison_is_refused_alone_and_named(store: PostgresStore) -> None:
    runs = await started_runs(store, 40)
    commits = [tick(run_id, 2) for run_id in runs]
    poison: dict[int, tuple[Commit, str]] = {
        3: (tick(runs[3], 2, events=b'{"no": '), "events"),
        4: (tick(runs[4], 2, events=b"\xff"), "events"),
        17: (tick(runs[17], 2, payloads=(Payload("h", b"nothing"),)), "payload"),
        18: (tick(runs[18], 2, timer=TimerUpdate(2**70)), "due_at_us"),
        19: (tick(runs[19], 2, timer=TimerUpdate(-1)), "due_at_us"),
        39: (tick(runs[39], 2, head=HeadUpdate(status="failed", error_type="a\x00b")), "error_type"),
    }
    for index, (commit, _) in poison.items():
        commits[index] = commit
    for index, answer in enumerate(await answered(store, *commits)):
        if index in poison:
            assert isinstance(answer, Refused)
            assert isinstance(answer.error, PoisonedCommitError)
            assert (answer.error.run_id, answer.error.version) == (runs[index], 2)
            assert answer.error.field == poison[index][1], answer.error
        else:
            assert answer == Appended(2)
    assert await answered(store, tick(runs[3], 2)) == [Appended(2)], "nothing of it was written"
    assert (await store.health()).is_available


async def test_a_key_that_an_outsider_holds_does_not_stall_the_others(store: PostgresStore, database: Database) -> None:
    runs = await started_runs(store, 200)
    await answered(store, *(tick(run_id, 2) for run_id in runs))
    async with outsider(database, runs[100], 3):
        held = send(store, tick(runs[100], 3))
        after_it = send(store, tick(runs[100], 4))
        others = [run_id for run_id in runs if run_id != runs[100]]
        assert await answered(store, *(tick(run_id, 3) for run_id in others)) == [Appended(3)] * 199
        before = await transactions(database)
        assert await answered(store, *(tick(run_id, 4) for run_id in others)) == [Appended(4)] * 199
        assert await transactions(database) == before + 1, "the run is set aside and nobody waits for it any more"
        assert not held.done()
        assert "1 runs wait" in (await store.health()).reason
        assert (await store.health()).is_available
    async with asyncio.timeout(WAIT_S):
        assert list(await asyncio.gather(held, after_it)) == [Appended(3), Appended(4)]
    assert (await store.health()).reason == ""
    assert await answered(store, tick(runs[100], 5)) == [Appended(5)]


async def test_a_run_that_was_set_aside_may_lose(store: PostgresStore, database: Database) -> None:
    (run_id,) = await started_runs(store, 1)
    async with outsider(database, run_id, 2) as connection:
        held = send(store, tick(run_id, 2))
        await until(lambda: is_set_aside(store))
        await connection.execute("COMMIT")
        async with asyncio.timeout(WAIT_S):
            assert await held == Conflict(run_id, 2)


async def is_set_aside(store: PostgresStore) -> bool:
    return "wait for a row" in (await store.health()).reason


async def test_poison_of_a_run_that_was_set_aside_is_refused(store: PostgresStore, database: Database) -> None:
    (run_id,) = await started_runs(store, 1)
    async with outsider(database, run_id, 2):
        held = send(store, tick(run_id, 2))
        await until(lambda: is_set_aside(store))
        poison = send(store, tick(run_id, 3, events=b"{"))
    async with asyncio.timeout(WAIT_S):
        assert await held == Appended(2)
        assert isinstance(await poison, Refused)


async def test_a_deadlock_means_send_again(database: Database) -> None:
    """The outsider takes the keys in the other order; the server undoes the batch, for it has waited longer."""
    async with PostgresStore(database.dsn, WriterLimits(lock_timeout_ms=20_000)) as store:
        first, second = await started_runs(store, 2)
        connections_before = [lane._connection for lane in store._writer._lanes]
        async with outsider(database, second, 2) as connection:
            answers = [send(store, tick(first, 2)), send(store, tick(second, 2))]
            await until(lambda: is_waiting(connection))
            await take(connection, first, 2)  # returns only because the deadlock was found and the batch undone
            assert not any(answer.done() for answer in answers)
        async with asyncio.timeout(WAIT_S):
            assert await asyncio.gather(*answers) == [Appended(2), Appended(2)]
        connections = [lane._connection for lane in store._writer._lanes]
        assert [after for after, before in zip(connections, connections_before, strict=True) if before] == [
            before for before in connections_before if before
        ], "nothing was wrong with the connection"


async def test_overlapping_batches_of_two_hosts_never_deadlock(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queued in opposite orders, with a key in the middle that an outsider holds until both batches are half-way."""
    failures: list[Failure] = []

    def noted(error: Exception) -> Failure:
        failures.append(classify(error))
        return failures[-1]

    monkeypatch.setattr(lane, "classify", noted)
    limits = WriterLimits(lock_timeout_ms=20_000)
    async with PostgresStore(database.dsn, limits) as one, PostgresStore(database.dsn, limits) as other:
        runs = await started_runs(one, 3)
        async with outsider(database, runs[1], 2) as connection:
            there = [send(one, tick(run_id, 2)) for run_id in runs]
            back = [send(other, tick(run_id, 2)) for run_id in reversed(runs)]
            await until(lambda: is_waiting(connection, 2))
        async with asyncio.timeout(WAIT_S):
            won, lost = await asyncio.gather(*there), await asyncio.gather(*back)
    for pair in zip(won, reversed(lost), strict=True):
        assert {type(answer) for answer in pair} == {Appended, Conflict}
    assert failures == []


async def test_an_answer_that_its_caller_does_not_take_keeps_nobody_from_his(store: PostgresStore) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def refuse(answer: CommitAnswer) -> None:
        raise RuntimeError("not taken")

    store.commit(start(), refuse)
    assert await answered(store, start()) == [Appended(1)]
    assert [str(context["exception"]) for context in reported] == ["not taken"]


async def test_a_writer_that_stops_by_a_defect_says_so(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def broken(self: Writer) -> list[object]:
        raise KeyError("defect")

    monkeypatch.setattr(Writer, "_take", broken)
    store.commit(start(), lambda answer: None)
    await until(lambda: bool(reported))
    health = await store.health()
    assert not health.is_available
    assert "defect" in health.reason
    store._writer.queued = 0  # the commit is lost with the writer; closing would say so
