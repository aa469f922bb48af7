"""The workflow patterns: each example does what its scenarios say, and the page names every pattern and example."""

import re
from pathlib import Path

import pytest

from ductor.testing.scenarios.model import Scenario
from ductor.testing.scenarios.suite import MemoryStores, Suite, load_suite
from tests.ductor.test_examples import check, reason_not_to_kill

CHECKOUT = Path(__file__).parents[2]
PATTERNS = CHECKOUT / "examples" / "patterns"
PAGE = CHECKOUT / "docs" / "patterns.md"
SUITES = {path.name.removesuffix(".scenario.yaml"): load_suite(path) for path in PATTERNS.glob("*.scenario.yaml")}
ALL_PATTERNS = 43

_ROW = re.compile(
    r"^\| (?P<number>\d+) \| (?P<name>[^|]+) \| (?P<support>yes|in part|by other means|no) \| (?P<how>.+) \|$"
)
_LINK = re.compile(r"\]\(\.\./examples/patterns/(\w+)\.yaml\)")


def scenarios(*, under_kills: bool = False) -> list[object]:
    """The scenarios of all patterns, as parameters of a test."""
    return [
        pytest.param(suite, scenario, id=f"{name}: {scenario.name}")
        for name, suite in sorted(SUITES.items())
        for scenario in suite.file.scenarios[: 1 if under_kills else None]
        if not under_kills or not reason_not_to_kill(suite, scenario)
    ]


def rows() -> list[re.Match[str]]:
    """The table of the page."""
    return [row for line in PAGE.read_text().splitlines() if (row := _ROW.match(line))]


@pytest.mark.parametrize(("suite", "scenario"), scenarios())
def test_in_memory(suite: Suite, scenario: Scenario):
    check(suite, scenario, MemoryStores())


@pytest.mark.parametrize(("suite", "scenario"), scenarios(under_kills=True))
def test_whenever_the_host_is_killed(suite: Suite, scenario: Scenario):
    assert suite.crash_at_every_commit(scenario, MemoryStores()) == []


def test_every_example_has_scenarios_that_come_out_differently():
    examples = {path.stem for path in PATTERNS.glob("*.yaml") if not path.name.endswith(".scenario.yaml")}
    assert set(SUITES) == examples
    for name, suite in SUITES.items():
        expected = {str((one.expect, one.expect_runs)) for one in suite.file.scenarios}
        assert len(expected) >= 2, name


def test_the_page_names_every_pattern_in_order():
    assert [int(row["number"]) for row in rows()] == list(range(1, ALL_PATTERNS + 1))


def test_every_pattern_that_can_be_written_is_shown_and_every_example_named():
    linked: set[str] = set()
    for row in rows():
        examples = set(_LINK.findall(row["how"]))
        assert bool(examples) == (row["support"] != "no"), row["name"]
        linked |= examples
    assert linked == set(SUITES)


def test_an_example_says_which_patterns_it_shows():
    for row in rows():
        for name in _LINK.findall(row["how"]):
            first_lines = "".join((PATTERNS / f"{name}.yaml").read_text().splitlines(keepends=True)[:3])
            assert re.search(rf"\b{row['number']} ", first_lines), f"{name} does not name pattern {row['number']}"
