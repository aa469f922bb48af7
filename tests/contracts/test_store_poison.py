"""A commit that a database refuses for its content is refused alone, and names itself."""

import asyncio
from collections.abc import Callable

import pytest

from ductor.journal.commit import (
    Appended,
    AttemptDisposition,
    Commit,
    ControlDisposition,
    HeadUpdate,
    Payload,
    Refused,
    TimerUpdate,
)
from ductor.journal.errors import PoisonedCommitError
from ductor.journal.records import Control
from ductor.journal.store import Store
from tests.contracts.writers import RunWriter, send, send_all, send_well, started

NEIGHBOURS = 30
# no two bytes alike side by side, so that nothing compresses it below what an index takes
LONG_KEY = "".join(chr(33 + (n * n * 7 + n) % 89) + chr(33 + (n * 31) % 83) for n in range(6_000))

POISONED_TICKS: dict[str, Callable[[RunWriter], Commit]] = {
    "events cut short": lambda run: run.commit(events=b'[{"type":'),
    "no events at all": lambda run: run.commit(events=b""),
    "events that are no UTF-8": lambda run: run.commit(events=b'["\xff"]'),
    "NUL in events": lambda run: run.commit(events=b'["\x00"]'),
    "payload cut short": lambda run: run.commit(payloads=(Payload("ab12", b'{"a"'),)),
    "payload that is no UTF-8": lambda run: run.commit(payloads=(Payload("ab12", b'"\xff"'),)),
    "NUL in the head": lambda run: run.commit(head=HeadUpdate(status="failed", error_type="a\0b")),
    "lone surrogate in the head": lambda run: run.commit(head=HeadUpdate(status="failed", error_type="\ud800")),
    "a timer beyond 64 bits": lambda run: run.commit(timer=TimerUpdate(2**63)),
    "NUL in an outcome": lambda run: run.commit(controls=(ControlDisposition("request-1", "refused", "a\0"),)),
}
POISONED_STARTS: dict[str, Callable[[RunWriter], Commit]] = {
    "NUL in the tenant": lambda run: run.start(tenant="a\0b"),
    "NUL in the key": lambda run: run.start(key="a\0b"),
    "lone surrogate in the definition": lambda run: run.start(definition="\udfff"),
    "a key no index takes": lambda run: run.start(key=LONG_KEY),
    "lone surrogate in a search attribute": lambda run: run.start(search_attributes={"city": "\ud800"}),
    "a parent that is no id": lambda run: run.start(parent_run_id="parent"),
    "events cut short": lambda run: run.start(events=b"["),
}


async def _among_neighbours(store: Store, poisoned: Commit) -> Refused:
    neighbours = [RunWriter() for _ in range(NEIGHBOURS)]
    commits = [run.start() for run in neighbours]
    commits.insert(NEIGHBOURS // 2, poisoned)
    answers = await send_all(store, commits)
    refused = answers.pop(NEIGHBOURS // 2)
    assert answers == [Appended(1)] * NEIGHBOURS
    assert isinstance(refused, Refused), refused
    return refused


@pytest.mark.parametrize("poison", POISONED_TICKS.values(), ids=POISONED_TICKS)
async def test_a_poisoned_tick_fails_alone(store: Store, poison: Callable[[RunWriter], Commit]):
    run = await started(store)
    await store.request_control(run.control())
    before = await store.load(run.run_id)
    refused = await _among_neighbours(store, poison(run))

    assert isinstance(refused.error, PoisonedCommitError)
    assert (refused.error.run_id, refused.error.version) == (run.run_id, 2)
    assert await store.load(run.run_id) == before
    await send_well(store, run.commit(version=2))


@pytest.mark.parametrize("poison", POISONED_STARTS.values(), ids=POISONED_STARTS)
async def test_a_poisoned_start_fails_alone(store: Store, poison: Callable[[RunWriter], Commit]):
    run = RunWriter()
    refused = await _among_neighbours(store, poison(run))

    assert isinstance(refused.error, PoisonedCommitError)
    assert (refused.error.run_id, refused.error.version) == (run.run_id, 1)
    assert await store.head(run.run_id) is None
    await started(store, run_id=run.run_id)


async def test_several_poisoned_commits_in_one_batch(store: Store):
    good = [RunWriter() for _ in range(NEIGHBOURS)]
    poisoned = [RunWriter() for _ in range(5)]
    commits = [run.start() for run in good] + [run.start(events=b"[") for run in poisoned]
    answers = await send_all(store, commits)
    assert answers[:NEIGHBOURS] == [Appended(1)] * NEIGHBOURS
    for run, answer in zip(poisoned, answers[NEIGHBOURS:], strict=True):
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, PoisonedCommitError)
        assert answer.error.run_id == run.run_id


async def test_a_refused_commit_names_the_field(store: Store):
    run = await started(store)
    answer = await send(store, run.commit(events=b"["))
    assert isinstance(answer, Refused)
    assert isinstance(answer.error, PoisonedCommitError)
    assert "events" in answer.error.field
    assert answer.error.reason


async def test_the_next_version_of_a_refused_one_is_a_hole(store: Store):
    run = await started(store)
    answers = await send_all(store, [run.commit(events=b"["), run.commit()])
    assert isinstance(answers[0], Refused)
    assert not isinstance(answers[1], Appended)


async def test_dispositions_of_rows_that_do_not_exist_hurt_nobody(store: Store):
    run = await started(store)
    tick = run.commit(
        controls=(ControlDisposition("unknown", "applied"),), attempts=(AttemptDisposition("unknown", 9, "refused"),)
    )
    assert await asyncio.wait_for(send(store, tick), 30) == Appended(2)
    assert await store.control(run.run_id, "unknown") is None
    assert list(await store.attempts(run.run_id)) == []


async def test_questions_about_what_is_no_run_id_find_nothing(store: Store):
    assert await store.head("no-id") is None
    assert await store.load("no-id") is None
    assert await store.payload("no-id", "ab12") is None
    assert await store.control("no-id", "request-1") is None
    assert list(await store.history("no-id")) == []
    assert list(await store.attempts("no-id")) == []
    assert await store.request_control(Control(run_id="no-id", request_id="request-1", kind="cancel")) is None
