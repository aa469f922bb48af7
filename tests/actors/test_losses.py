"""Attempts that were lost with hosts: counted before they are issued again, and set aside when that was too often."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast
from uuid import UUID

import pytest

from ductor.actors import losses as module
from ductor.actors.engine_options import MIN_MAX_LOSSES, EngineOptions
from ductor.actors.errors import AttemptLostError, InvalidSettingError
from ductor.actors.losses import RETRY_FIRST_S, RETRY_MAX_S, TRIAL_S, LostAttempts
from ductor.actors.messages import Assignment
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.ids import Ids, SystemIds
from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store
from ductor.testing import virtual_time
from tests.actors.hosting import WrappedStore
from tests.actors.pools import assignment, loop_clock

MAX_LOSSES = 2
CALL_S = 1.0


def attempt(number: int, run_id: str = "run") -> Assignment:
    return assignment("work", run_id=run_id, number=number, is_redelivery=True, token=f"{run_id}/work/{number}")


class SlowStore(WrappedStore):
    """Counts within a second, unless told otherwise. Raises `failures` first, each after it has counted, or has not."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(MemoryStore(loop_clock()))
        self.said, self.call_s = said, CALL_S
        self.failures: list[tuple[Exception, bool]] = []

    async def attempt_losses(self, tokens: Sequence[str]) -> Mapping[str, int]:
        return await self.inner.attempt_losses(tokens)

    async def count_losses(self, tokens: Sequence[str], count_id: UUID) -> Mapping[str, int]:
        self.said.append(f"count {len(tokens)}")
        await asyncio.sleep(self.call_s)
        if self.failures:
            error, is_counted = self.failures.pop(0)
            if is_counted:
                await self.inner.count_losses(tokens, count_id)
            raise error
        return await self.inner.count_losses(tokens, count_id)


class Owner:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.slow = SlowStore(self.said)
        self.store = cast("Store", self.slow)
        self.ids: Ids = SystemIds()
        self.errors: list[AttemptLostError] = []

    def issue(self, assignment: Assignment) -> None:
        self.said.append(f"issue {assignment.token}")

    def cancel(self, token: str) -> None:
        self.said.append(f"cancel {token}")

    def set_aside(self, run_id: str, error: Exception) -> None:
        self.said.append(f"set aside {run_id}")
        assert isinstance(error, AttemptLostError)
        self.errors.append(error)

    def wake_later(self, run_id: str) -> None:
        self.said.append(f"wake {run_id} later")


async def opened(max_losses: int = MAX_LOSSES) -> tuple[Owner, LostAttempts]:
    owner = Owner()
    await owner.slow.inner.open()
    return owner, LostAttempts(owner, max_losses)


@virtual_time
async def test_an_attempt_is_counted_before_it_is_issued_and_issued_as_often_as_the_limit_says():
    owner, lost = await opened()
    for _ in range(MAX_LOSSES):
        owner.said.clear()
        lost.add(attempt(1))
        assert owner.said == []
        await asyncio.sleep(CALL_S / 2)
        assert owner.said == ["count 1"]
        assert list(lost.tokens) == ["run/work/1"]
        await asyncio.sleep(CALL_S)
        assert owner.said == ["count 1", "issue run/work/1"]
        assert not lost.tokens
    owner.said.clear()
    lost.add(attempt(1))
    lost.add(attempt(2))
    await asyncio.sleep(3 * CALL_S)
    assert owner.said == ["count 1", "issue run/work/2", "count 1", "set aside run"]
    (error,) = owner.errors
    assert (error.run_id, error.step, error.task, error.token) == ("run", "work", "work", "run/work/1")
    assert error.losses == MAX_LOSSES + 1
    for told in ("3 times", "step work", "`ductor release run`", "`ductor cancel run`"):
        assert told in str(error)


@virtual_time
async def test_a_run_that_has_lost_several_attempts_is_set_aside_once():
    owner, lost = await opened()
    for _ in range(MAX_LOSSES + 1):
        for number in range(3):
            lost.add(attempt(number))
        await asyncio.sleep(2 * CALL_S)
    assert owner.said.count("set aside run") == 1
    assert len(owner.errors) == 1


@virtual_time
async def test_all_that_waits_goes_with_one_statement_up_to_its_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "TOKENS_PER_COUNT", 3)
    owner, lost = await opened()
    lost.add(attempt(0))
    await asyncio.sleep(CALL_S / 2)
    for number in range(1, 6):
        lost.add(attempt(number))
    await asyncio.sleep(4 * CALL_S)
    assert [said for said in owner.said if said.startswith("count")] == ["count 1", "count 3", "count 2"]
    assert sorted(said for said in owner.said if said.startswith("issue")) == [
        f"issue run/work/{number}" for number in range(6)
    ]


@virtual_time
async def test_beyond_the_bound_runs_are_looked_at_later(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    owner, lost = await opened()
    for number in range(3):
        lost.add(attempt(number, run_id=f"run-{number}"))
    assert owner.said == ["wake run-2 later"]
    assert len(lost.tokens) == 2
    await lost.close()


@virtual_time
async def test_an_attempt_that_waits_is_not_counted_again():
    owner, lost = await opened()
    for _ in range(3):
        lost.add(attempt(1))
        await asyncio.sleep(CALL_S / 4)
    await asyncio.sleep(2 * CALL_S)
    assert owner.said == ["count 1", "issue run/work/1"]


@virtual_time
async def test_what_is_cancelled_meanwhile_is_told_so_when_it_is_issued_however_often_it_was_lost():
    owner, lost = await opened()
    for _ in range(MAX_LOSSES + 1):
        owner.said.clear()
        lost.add(attempt(1))
        await asyncio.sleep(CALL_S / 2)
        lost.cancel("run/work/1")
        await asyncio.sleep(CALL_S)
        assert owner.said == ["count 1", "issue run/work/1", "cancel run/work/1"]


@virtual_time
async def test_what_has_a_result_meanwhile_is_not_issued():
    owner, lost = await opened()
    lost.add(attempt(1))
    lost.add(attempt(2))
    await asyncio.sleep(CALL_S / 2)
    lost.forget("run/work/1")
    await asyncio.sleep(CALL_S)
    assert owner.said == ["count 2", "issue run/work/2"]


@virtual_time
async def test_while_the_database_is_away_it_is_asked_with_growing_pauses_and_counts_once():
    owner, lost = await opened()
    failures = 9
    owner.slow.failures = [(StoreUnavailableError("it is away"), True)] * (failures - 1) + [(ValueError("?"), False)]
    began_s = asyncio.get_running_loop().time()
    lost.add(attempt(1))
    assert lost._counting is not None
    await lost._counting
    took_s = asyncio.get_running_loop().time() - began_s
    pauses_s = sum(min(RETRY_FIRST_S * 2**number, RETRY_MAX_S) for number in range(failures))
    assert took_s == pytest.approx(pauses_s + (failures + 1) * CALL_S, abs=0.02)
    assert owner.said == ["count 1"] * (failures + 1) + ["issue run/work/1"]
    assert await owner.slow.inner.count_losses(["run/work/1"], UUID(int=0)) == {"run/work/1": 2}


@virtual_time
async def test_what_comes_when_the_last_count_is_through_does_not_wait_for_another():
    owner, lost = await opened()
    lost.add(attempt(1))
    counting = lost._counting
    assert counting is not None
    counting.add_done_callback(lambda _: lost.add(attempt(2)))  # the task is done, and nothing else has been told so
    await asyncio.sleep(3 * CALL_S)
    assert owner.said == ["count 1", "issue run/work/1", "count 1", "issue run/work/2"]


@virtual_time
async def test_a_host_that_closes_issues_nothing_and_knows_that_something_is_left():
    owner, lost = await opened()
    lost.add(attempt(1))
    await asyncio.sleep(CALL_S / 2)
    await lost.close()
    lost.add(attempt(2))
    await asyncio.sleep(2 * CALL_S)
    assert owner.said == ["count 1"]
    assert lost.has_left_attempts
    assert not lost.tokens


@virtual_time
async def test_a_host_that_closes_with_nothing_to_count_has_left_nothing():
    _, lost = await opened()
    lost.add(attempt(1))
    await asyncio.sleep(2 * CALL_S)
    await lost.close()
    assert not lost.has_left_attempts


@virtual_time
async def test_suspects_are_tried_in_groups_those_lost_less_often_first_and_the_next_ones_after_a_trial():
    owner, lost = await opened(max_losses=100)
    owner.slow.call_s = 0.0
    for count, numbers in ((1, range(120)), (2, range(15)), (3, range(2))):
        for number in numbers:
            for _ in range(count):
                await owner.slow.inner.count_losses([f"run-{count}/work/{number}"], owner.ids.commit_id())
            lost.add(attempt(number, run_id=f"run-{count}"))
    lost.add(attempt(0, run_id="new"))
    issued: list[list[str]] = []
    while lost.tokens:
        owner.said.clear()
        await asyncio.sleep(TRIAL_S if issued else TRIAL_S / 2)
        issued.append([said.split("/")[0] for said in owner.said if said.startswith("issue")])
    assert issued[0] == ["issue new"] + ["issue run-1"] * 100
    assert issued[1:] == [
        ["issue run-1"] * 20,
        ["issue run-2"] * 10,
        ["issue run-2"] * 5,
        ["issue run-3"],
        ["issue run-3"],
    ]


@virtual_time
async def test_a_trial_is_over_when_there_are_results():
    owner, lost = await opened(max_losses=100)
    owner.slow.call_s = 0.0
    tokens = [f"run/work/{number}" for number in range(20)]
    for _ in range(3):
        await owner.slow.inner.count_losses(tokens, owner.ids.commit_id())
    loop, issue = asyncio.get_running_loop(), owner.issue

    def finishing(assignment: Assignment) -> None:
        issue(assignment)
        loop.call_later(0.001, lost.forget, assignment.token)

    owner.issue = finishing  # type: ignore[method-assign]
    for number in range(20):
        lost.add(attempt(number))
    await asyncio.sleep(0.1)
    assert not lost.tokens
    assert len(owner.said) == 2 * len(tokens)


@virtual_time
async def test_an_attempt_that_can_not_be_issued_keeps_no_other_waiting():
    owner, lost = await opened()
    issue = owner.issue

    def failing(assignment: Assignment) -> None:
        if assignment.token.endswith("/1"):
            raise RuntimeError("a defect")
        issue(assignment)

    owner.issue = failing  # type: ignore[method-assign]
    lost.add(attempt(1))
    lost.add(attempt(2))
    await asyncio.sleep(2 * CALL_S)
    assert owner.said == ["count 2", "wake run later", "issue run/work/2"]


@pytest.mark.parametrize("max_losses", [MIN_MAX_LOSSES, EngineOptions().max_losses])
@pytest.mark.parametrize("place", [0, 75, 149])
@virtual_time
async def test_who_ends_hosts_is_found_among_all_that_were_with_it(place: int, max_losses: int):
    """All run for as long as hosts live, so that each is lost with every host that has it."""
    owner = Owner()
    owner.slow.call_s = 0.001
    await owner.slow.inner.open()
    deadly, issue, has_ended = f"run-{place}/work/1", owner.issue, asyncio.Event()

    def issuing(assignment: Assignment) -> None:
        issue(assignment)
        if assignment.token == deadly:
            has_ended.set()

    owner.issue = issuing  # type: ignore[method-assign]
    for hosts in range(1, 100):  # noqa: B007 - how many there were is told below
        has_ended.clear()
        lost = LostAttempts(owner, max_losses)
        for number in range(150):
            lost.add(attempt(1, run_id=f"run-{number}"))
        while lost.tokens and not has_ended.is_set():  # noqa: ASYNC110 - one of two things happens
            await asyncio.sleep(0.002)
        await lost.close()
        if owner.errors:
            break
    assert [error.token for error in owner.errors] == [deadly]
    assert hosts == max_losses + 1
    assert owner.said.count(f"issue {deadly}") == max_losses


@pytest.mark.parametrize("max_losses", [MIN_MAX_LOSSES - 1, 0, -1])
def test_an_attempt_may_be_lost_a_few_times_at_least(max_losses: int):
    with pytest.raises(InvalidSettingError, match="max_losses is"):
        EngineOptions(max_losses=max_losses)
    assert EngineOptions(max_losses=MIN_MAX_LOSSES).max_losses == MIN_MAX_LOSSES
