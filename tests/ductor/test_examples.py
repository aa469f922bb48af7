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


def withstands_kills(suite: Suite, scenario: Scenario) -> bool:
    """Whether a kill must change nothing: a control or a message sent at a moment may meet another step after a kill,
    because a killed attempt begins anew, and a timer that a kill has hidden comes with the next sweep."""
    handlers = {**suite.file.handlers, **scenario.handlers}
    takes_time = any(answer.takes_ms for answers in handlers.values() for answer in answers)
    depends_on_moments = bool(scenario.send) or scenario.start is None
    is_robust = all(sent.kind != "control" and sent.at_ms <= DAY_MS for sent in scenario.send)
    return not depends_on_moments or (is_robust and not takes_time)


def scenarios(*, first_only: bool = False, under_kills: bool = False) -> list[object]:
    """The scenarios of all examples, as parameters of a test."""
    return [
        pytest.param(suite, scenario, id=f"{name}: {scenario.name}")
        for name, suite in sorted(SUITES.items())
        for scenario in suite.file.scenarios[: 1 if first_only else None]
        if not under_kills or withstands_kills(suite, scenario)
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


@pytest.mark.parametrize(("suite", "scenario"), scenarios(under_kills=True))
def test_whenever_the_host_is_killed(suite: Suite, scenario: Scenario):
    assert suite.crash_at_every_commit(scenario, MemoryStores()) == []
