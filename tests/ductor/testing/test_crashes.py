"""Kills at every commit: nothing is lost or doubled, and the check itself notices when something is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from ductor.journal.memory import MemoryStore
from ductor.journal.store import Store
from ductor.testing.clock import VirtualClock
from ductor.testing.crashes import CrashPoint, Fate, TooManyLivesError, crash_differences
from ductor.testing.loop import run_in_virtual_time
from ductor.testing.scenarios.suite import MemoryStores, PostgresStores
from tests.ductor.testing.scenarios.playing import suite_of

SCENARIOS = """\
handlers:
  do.first: {takes: 1s, returns: {value: 1}}
  do.second: [{when: n == 1, raises: Slow}, {returns: {value: 7}}]
  do.last: {returns: null}
scenarios:
  - {name: retried, start: pair, input: {n: 1}, expect: {status: completed, output: {sum: 7}}}
"""


def test_a_run_comes_out_the_same_wherever_its_host_is_killed():
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    assert suite.crash_at_every_commit(scenario, MemoryStores()) == []


def test_a_killed_host_redelivers_and_counts_each_attempt_once():
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    quiet, counts = suite.play_with_crash(scenario, MemoryStores(), None)
    killed, counts_with_kills = suite.play_with_crash(scenario, MemoryStores(), CrashPoint(0, "before", every=True))
    assert counts_with_kills["commit"] >= 2 * counts["commit"]
    assert len(killed.calls) == len(quiet.calls) == 4
    assert killed.view is not None
    assert killed.view.status == "completed"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attempt_whose_dispatch_is_fatal_is_delivered_again(when: Fate):
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    quiet, counts = suite.play_with_crash(scenario, MemoryStores(), None)
    assert (counts["dispatch"], counts["acknowledgement"]) == (4, 4)
    point = CrashPoint(1, when, at="dispatch")
    killed, counts_with_kill = suite.play_with_crash(scenario, MemoryStores(), point)
    assert counts_with_kill["dispatch"] == 5
    assert crash_differences(quiet, killed) == []
    assert str(point) == f"{when} dispatch 1"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_result_whose_acknowledgement_is_fatal_is_not_asked_for_again(when: Fate):
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    quiet, _ = suite.play_with_crash(scenario, MemoryStores(), None)
    killed, counts = suite.play_with_crash(scenario, MemoryStores(), CrashPoint(1, when, at="acknowledgement"))
    assert counts["acknowledgement"] == 4
    assert crash_differences(quiet, killed) == []


class ForgetfulStore:
    """A store that forgets who has to be woken: what a lost recovery looks like."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("runs_to_recover", "runs_to_wake", "idle_runs"):
            return self._nobody
        return getattr(self._store, name)

    async def _nobody(self, *_: object) -> list[str]:
        return []


class ForgetfulStores:
    @contextmanager
    def empty(self, clock: VirtualClock) -> Iterator[Store]:
        store = MemoryStore(clock)
        run_in_virtual_time(store.open(), clock=clock)
        yield cast("Store", ForgetfulStore(store))


def test_a_run_that_nobody_takes_up_again_is_noticed():
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    found = suite.crash_at_every_commit(scenario, ForgetfulStores())
    assert any(line.startswith("killed after commit 2: status: 'completed' became") for line in found)


def test_a_run_without_progress_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ductor.testing.crashes.MAX_LIVES", 3)
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    with pytest.raises(TooManyLivesError, match="after 3 lives"):
        suite.play_with_crash(scenario, MemoryStores(), CrashPoint(0, "before", every=True))


def test_every_difference_is_named():
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    other_suite = suite_of(
        SCENARIOS.replace("value: 7", "value: 8").replace("n == 1, raises: Slow", "n < 1, raises: S")
    )
    (other,) = other_suite.file.scenarios
    first, _ = suite.play_with_crash(scenario, MemoryStores(), None)
    second, _ = other_suite.play_with_crash(other, MemoryStores(), None)
    found = crash_differences(first, second)
    assert found[0] == "output: {'sum': 7} became {'sum': 8}"
    assert found[1].startswith("calls: ")
    assert len(found) == 2


def test_a_killed_host_loses_nothing_in_postgres():
    suite = suite_of(SCENARIOS)
    (scenario,) = suite.file.scenarios
    with PostgresStores() as stores:
        result = suite.play(scenario, stores)
        assert result.differences == ()
        quiet, counts = suite.play_with_crash(scenario, stores, None)
        for point in (
            CrashPoint(0, "before", every=True),
            CrashPoint(counts["commit"], "before"),
            CrashPoint(2, "after"),
            CrashPoint(2, "after", at="dispatch"),
            CrashPoint(1, "before", at="acknowledgement"),
        ):
            killed, _ = suite.play_with_crash(scenario, stores, point)
            assert crash_differences(quiet, killed) == []
