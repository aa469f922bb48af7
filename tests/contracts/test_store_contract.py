"""Commits: versions, atomicity, idempotence, start keys. Every store passes this suite; see `conftest.py`."""

import asyncio

import pytest

from ductor.journal.commit import (
    Appended,
    AttemptDisposition,
    Commit,
    CommitAnswer,
    Conflict,
    ControlDisposition,
    HeadUpdate,
    Payload,
    StartKeyTaken,
    TimerUpdate,
)
from ductor.journal.errors import OverloadedError, StoreUnavailableError
from ductor.journal.records import AttemptRow, FeedPosition
from ductor.journal.store import Store
from tests.contracts.writers import EVENTS, RESENDS, START_US, RunWriter, send, send_all, send_well, started, whole_feed

CONTENDERS = 20


# --- versions ---------------------------------------------------------------------------------------------------------


async def test_rows_are_read_back_as_they_were_sent(store: Store):
    run = RunWriter()
    events = '[ {"type":"tick_limited" , "b":1.0,"a":123456789012345678901234567890, "ü":"😀"}]'.encode()
    first, second = run.start(), run.commit(events=events)
    await send_well(store, first, second)

    history = await store.history(run.run_id)
    for row, commit in zip(history, [first, second], strict=True):
        assert (row.run_id, row.version, row.commit_id) == (commit.run_id, commit.version, commit.commit_id)
        assert (row.at_us, row.events, row.hash) == (commit.at_us, commit.events, commit.hash)
    loaded = await store.load(run.run_id)
    assert loaded is not None
    assert loaded.tail == tuple(history)


async def test_a_version_is_written_once(store: Store):
    run = await started(store)
    winner, loser = run.commit(), run.commit(version=2, events=b"[]")
    await send_well(store, winner)

    assert await send(store, loser) == Conflict(run.run_id, 2)
    assert [row.events for row in await store.history(run.run_id)] == [EVENTS, EVENTS]


@pytest.mark.parametrize("version", [3, 4, 1_000])
async def test_a_hole_is_a_conflict(store: Store, version: int):
    run = await started(store)
    assert await send(store, run.commit(version=version)) == Conflict(run.run_id, version)
    assert len(await store.history(run.run_id)) == 1


async def test_version_one_needs_its_head(store: Store):
    run = RunWriter()
    assert await send(store, run.commit()) == Conflict(run.run_id, 1)
    assert await store.head(run.run_id) is None
    assert await store.load(run.run_id) is None
    assert list(await store.history(run.run_id)) == []


async def test_a_later_version_of_a_run_that_does_not_exist_is_a_conflict(store: Store):
    run = RunWriter()
    assert await send(store, run.commit(version=2)) == Conflict(run.run_id, 2)
    assert await store.head(run.run_id) is None


async def test_a_run_is_started_once(store: Store):
    run = await started(store)
    assert await send(store, RunWriter(run.run_id).start(definition="other")) == Conflict(run.run_id, 1)
    head = await store.head(run.run_id)
    assert head is not None
    assert head.definition == "order"


async def test_of_many_writers_at_one_version_one_wins(store: Store):
    run = await started(store)
    contenders = [run.commit(version=2, at_us=START_US + n) for n in range(CONTENDERS)]
    answers = await send_all(store, contenders)

    assert sorted(type(answer).__name__ for answer in answers) == ["Appended"] + ["Conflict"] * (CONTENDERS - 1)
    winner = contenders[answers.index(Appended(2))]
    assert [row.commit_id for row in await store.history(run.run_id, after_version=1)] == [winner.commit_id]


async def test_commits_of_one_run_are_judged_in_order(store: Store):
    run = RunWriter()
    in_order = [run.start(), run.commit(), run.commit(), run.commit()]
    assert await send_all(store, in_order) == [Appended(1), Appended(2), Appended(3), Appended(4)]

    fifth, sixth = run.commit(), run.commit()
    assert await send_all(store, [sixth, fifth]) == [Conflict(run.run_id, 6), Appended(5)]


# --- all or nothing ---------------------------------------------------------------------------------------------------


async def _with_inputs(store: Store) -> RunWriter:
    run = await started(store, timer=TimerUpdate(START_US + 7))
    await store.request_control(run.control())
    await store.append_attempt(AttemptRow(run_id=run.run_id, node="pay", generation=1, outcome="succeeded"))
    return run


def _everything(run: RunWriter, **fields: object) -> Commit:
    return run.commit(
        head=HeadUpdate(status="failed", ended_at_us=START_US + 9, error_type="Declined", compensated="partial"),
        timer=TimerUpdate(START_US + 5),
        payloads=(Payload("ab12", b'{"large":true}'),),
        controls=(ControlDisposition("request-1", "applied", "done"),),
        attempts=(AttemptDisposition("pay", 1, "applied"),),
        **fields,
    )


async def test_everything_of_a_commit_is_written_with_its_row(store: Store):
    run = await _with_inputs(store)
    await send_well(store, _everything(run))

    head = await store.head(run.run_id)
    assert head is not None
    assert (head.status, head.ended_at_us, head.error_type) == ("failed", START_US + 9, "Declined")
    assert head.compensated == "partial"
    assert head.updated_at_us == START_US + 2
    assert await store.next_due_us() == START_US + 5
    assert await store.payload(run.run_id, "ab12") == b'{"large":true}'
    control = await store.control(run.run_id, "request-1")
    assert control is not None
    assert (control.disposition, control.outcome) == ("applied", "done")
    assert [row.disposition for row in await store.attempts(run.run_id)] == ["applied"]


async def test_nothing_of_a_commit_that_lost_is_written(store: Store):
    run = await _with_inputs(store)
    await send_well(store, run.commit())
    assert await send(store, _everything(run, version=2)) == Conflict(run.run_id, 2)

    head = await store.head(run.run_id)
    assert head is not None
    assert (head.status, head.ended_at_us, head.error_type, head.updated_at_us) == ("running", None, None, START_US + 1)
    assert head.compensated == ""
    assert await store.next_due_us() == START_US + 7
    assert await store.payload(run.run_id, "ab12") is None
    control = await store.control(run.run_id, "request-1")
    assert control is not None
    assert control.disposition == ""
    assert [row.disposition for row in await store.attempts(run.run_id)] == [""]


async def test_a_tick_that_changes_no_filter_leaves_the_head(store: Store):
    run = await started(store)
    before = await store.head(run.run_id)
    await send_well(store, run.commit(), run.commit())
    assert await store.head(run.run_id) == before


async def test_a_start_may_end_in_its_first_tick(store: Store):
    run = await started(store, head=HeadUpdate(status="completed", ended_at_us=START_US + 3))
    head = await store.head(run.run_id)
    assert head is not None
    assert (head.status, head.ended_at_us) == ("completed", START_US + 3)


# --- sent again -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resend", RESENDS.values(), ids=RESENDS)
async def test_a_commit_sent_again_is_written_once(store: Store, resend):
    run = RunWriter()
    assert await resend(store, run.start(key="order-7")) == Appended(1)
    assert await resend(store, run.commit(payloads=(Payload("ab12", b"{}"),))) == Appended(2)
    assert await resend(store, run.commit(head=HeadUpdate(status="completed", ended_at_us=START_US))) == Appended(3)

    assert [row.version for row in await store.history(run.run_id)] == [1, 2, 3]
    assert [entry.transition.version for entry in await whole_feed(store)] == [1, 2, 3]
    assert await store.find_start_key("acme", "order", "order-7") == run.run_id


async def test_a_commit_sent_again_late_changes_nothing(store: Store):
    run = await started(store)
    early = run.commit(head=HeadUpdate(status="waiting"), timer=TimerUpdate(START_US + 5))
    later = run.commit(head=HeadUpdate(status="running"), timer=TimerUpdate(None))
    await send_well(store, early, later)

    assert await send(store, early) == Appended(2)
    head = await store.head(run.run_id)
    assert head is not None
    assert head.status == "running"
    assert await store.next_due_us() is None


@pytest.mark.parametrize("resend", RESENDS.values(), ids=RESENDS)
async def test_a_loser_sent_again_loses_again(store: Store, resend):
    run = await started(store)
    winner, loser = run.commit(), run.commit(version=2)
    await send_well(store, winner)
    assert await resend(store, loser) == Conflict(run.run_id, 2)


# --- start keys -------------------------------------------------------------------------------------------------------


async def test_a_key_starts_one_run(store: Store):
    first = await started(store, key="order-7")
    second = RunWriter()
    assert await send(store, second.start(key="order-7")) == StartKeyTaken(first.run_id)
    assert await store.head(second.run_id) is None
    assert list(await store.history(second.run_id)) == []
    assert await store.find_start_key("acme", "order", "order-7") == first.run_id


async def test_of_many_starts_of_one_key_at_once_one_wins(store: Store):
    runs = [RunWriter() for _ in range(CONTENDERS)]
    answers = await send_all(store, [run.start(key="order-7") for run in runs])

    assert answers.count(Appended(1)) == 1
    winner = runs[answers.index(Appended(1))].run_id
    assert answers.count(StartKeyTaken(winner)) == CONTENDERS - 1
    assert [entry.transition.run_id for entry in await whole_feed(store)] == [winner]


async def test_a_key_belongs_to_its_tenant_and_definition(store: Store):
    first = await started(store, key="order-7")
    other_tenant = await started(store, key="order-7", tenant="globex")
    other_definition = await started(store, key="order-7", definition="refund")

    assert await store.find_start_key("acme", "order", "order-7") == first.run_id
    assert await store.find_start_key("globex", "order", "order-7") == other_tenant.run_id
    assert await store.find_start_key("acme", "refund", "order-7") == other_definition.run_id
    assert await store.find_start_key("globex", "refund", "order-7") is None


async def test_a_start_that_lost_takes_no_key(store: Store):
    run = await started(store)
    assert await send(store, RunWriter(run.run_id).start(key="order-8")) == Conflict(run.run_id, 1)
    assert await store.find_start_key("acme", "order", "order-8") is None
    await started(store, key="order-8")


@pytest.mark.parametrize("key", ["x" * 255, "ü" * 127, "😀" * 63, "a b/c'\"\\%", " "])
async def test_keys_of_any_text_up_to_255_bytes(store: Store, key: str):
    run = await started(store, key=key, tenant=key, definition=key)
    assert await store.find_start_key(key, key, key) == run.run_id
    head = await store.head(run.run_id)
    assert head is not None
    assert (head.tenant, head.definition, head.key) == (key, key, key)


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_answers_come_once_and_never_within_the_call(store: Store):
    run = RunWriter()
    answers: list[CommitAnswer] = []
    last = asyncio.Event()

    def answer_last(answer: CommitAnswer) -> None:
        answers.append(answer)
        last.set()

    store.commit(run.start(), answers.append)
    store.commit(run.commit(), answer_last)
    assert answers == []
    await asyncio.wait_for(last.wait(), 30)
    await send_well(store, run.commit())
    assert answers == [Appended(1), Appended(2)]


async def test_an_answer_that_raises_does_not_take_its_neighbours_answers(store: Store):
    raised: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: raised.append(context["exception"]))
    failure = RuntimeError("the caller's own")

    def fail(answer: CommitAnswer) -> None:
        raise failure

    store.commit(RunWriter().start(), fail)
    assert await send(store, RunWriter().start()) == Appended(1)
    assert raised == [failure]
    assert await send(store, RunWriter().start()) == Appended(1)


async def test_more_commits_than_a_batch_holds(store: Store):
    runs = [RunWriter() for _ in range(300)]
    commits = [run.start() for run in runs] + [run.commit() for _ in range(4) for run in runs]
    answers = await send_all(store, commits)
    assert answers == [Appended(commit.version) for commit in commits]
    assert len(await whole_feed(store)) == 1_500


async def test_more_bytes_than_a_batch_holds(store: Store):
    text = b'"' + b"x" * (1024 * 1024) + b'"'
    runs = [RunWriter() for _ in range(24)]
    answers = await send_all(store, [run.start(payloads=(Payload("ab12", text),)) for run in runs])
    assert answers == [Appended(1)] * 24
    for run in runs:
        assert await store.payload(run.run_id, "ab12") == text


async def test_starts_beyond_the_bound_are_turned_away_and_ticks_are_not(store: Store):
    run = await started(store)
    limit = (await store.health()).queue_limit
    answered: list[CommitAnswer] = []
    for _ in range(limit):
        store.commit(RunWriter().start(), answered.append)
    with pytest.raises(OverloadedError) as overload:
        store.commit(RunWriter().start(), answered.append)
    assert (overload.value.queued, overload.value.limit) == (limit, limit)
    assert await send(store, run.commit()) == Appended(2)
    await store.close()
    assert answered == [Appended(1)] * limit


async def test_closing_answers_what_is_queued(store: Store):
    runs = [RunWriter() for _ in range(50)]
    answers: list[CommitAnswer] = []
    for run in runs:
        store.commit(run.start(), answers.append)
    await store.close()
    assert answers == [Appended(1)] * 50

    with pytest.raises(StoreUnavailableError):
        await store.head(runs[0].run_id)
    with pytest.raises(StoreUnavailableError):
        store.commit(runs[0].commit(), answers.append)
    assert not (await store.health()).is_available

    await store.open()
    assert len(await store.feed(FeedPosition(), 100)) == 50
