"""Every example does what its scenarios say: in memory, in PostgreSQL, and wherever its host is killed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import UNSET

from ductor.testing.scenarios.model import Scenario
from ductor.testing.scenarios.report import failure_text
from ductor.testing.scenarios.suite import MemoryStores, PostgresStores, Stores, Suite, load_suite

EXAMPLES = Path(__file__).parents[2] / "examples"
SUITES = {path.name.removesuffix(".scenario.yaml"): load_suite(path) for path in EXAMPLES.glob("*.scenario.yaml")}


DAY_MS = 24 * 3_600 * 1_000

ASKED_AT_A_MOMENT = "a control comes at a moment; a killed attempt begins anew, and the control meets another step"
SENT_LATE = "a message comes after more than a day; a timer that a kill has hidden comes with the next sweep"
SENT_WHILE_HANDLERS_RUN = "messages come while handlers take their time; a killed one takes it again"


def reason_not_to_kill(suite: Suite, scenario: Scenario) -> str:
    """Why a kill may change what comes of a scenario; empty where it must change nothing."""
    if any(sent.kind == "control" for sent in scenario.send):
        return ASKED_AT_A_MOMENT
    if any(sent.at_ms > DAY_MS for sent in scenario.send):
        return SENT_LATE
    handlers = {**suite.file.handlers, **scenario.handlers}
    takes_time = any(answer.takes_ms for answers in handlers.values() for answer in answers)
    return SENT_WHILE_HANDLERS_RUN if takes_time and (scenario.send or scenario.start is None) else ""


def scenarios(*, first_only: bool = False, under_kills: bool = False) -> list[object]:
    """The scenarios of all examples, as parameters of a test."""
    return [
        pytest.param(suite, scenario, id=f"{name}: {scenario.name}")
        for name, suite in sorted(SUITES.items())
        for scenario in suite.file.scenarios[: 1 if first_only else None]
        if not under_kills or not reason_not_to_kill(suite, scenario)
    ]


def check(suite: Suite, scenario: Scenario, stores: Stores) -> None:
    result = suite.play(scenario, stores)
    assert not result.differences, failure_text(scenario, result.played, result.differences)


@pytest.fixture(scope="module")
def postgres_stores() -> Iterator[PostgresStores]:
    with PostgresStores() as stores:
        yield stores


def test_every_example_has_scenarios_and_one_of_them_goes_wrong():
    examples = {path.stem for path in EXAMPLES.glob("*.yaml") if not path.name.endswith(".scenario.yaml")}
    assert set(SUITES) == examples
    for name, suite in SUITES.items():
        assert len(suite.file.scenarios) >= 3, name
        of_files = (suite.file.handlers, *(scenario.handlers for scenario in suite.file.scenarios))
        handlers = [answer for given in of_files for answers in given.values() for answer in answers]
        goes_wrong = any(answer.raises is not None or answer.takes_ms for answer in handlers)
        is_ended = any(scenario.expect.status not in ("completed", UNSET) for scenario in suite.file.scenarios)
        assert goes_wrong or is_ended or not handlers, name


@pytest.mark.parametrize(("suite", "scenario"), scenarios())
def test_in_memory(suite: Suite, scenario: Scenario):
    check(suite, scenario, MemoryStores())


@pytest.mark.parametrize(("suite", "scenario"), scenarios(first_only=True))
def test_in_postgres(suite: Suite, scenario: Scenario, postgres_stores: PostgresStores):
    check(suite, scenario, postgres_stores)


def test_hosts_of_examples_are_killed_and_few_scenarios_are_left_out():
    left_out = {
        (name, scenario.name): reason
        for name, suite in SUITES.items()
        for scenario in suite.file.scenarios
        if (reason := reason_not_to_kill(suite, scenario))
    }
    of_all = {
        name for name, suite in SUITES.items() if all((name, one.name) in left_out for one in suite.file.scenarios)
    }
    assert of_all == {"digest"}  # every one of its scenarios is about what comes while something else goes on
    assert set(left_out.values()) == {ASKED_AT_A_MOMENT, SENT_LATE, SENT_WHILE_HANDLERS_RUN}
    assert len(left_out) <= sum(len(suite.file.scenarios) for suite in SUITES.values()) // 4


@pytest.mark.parametrize(("suite", "scenario"), scenarios(under_kills=True))
def test_whenever_the_host_is_killed(suite: Suite, scenario: Scenario):
    assert suite.crash_at_every_commit(scenario, MemoryStores()) == []
