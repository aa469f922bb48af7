"""The cases of the AWS durable execution conformance tests that apply: scenarios of ours, each also under kills.

The pytest plugin plays the scenario files of this folder as they are; here they are played once more for each commit.

`docs/reference/conformance.md` lists every case; a scenario's name begins with the number of the case that it shows.
"""

import re
from pathlib import Path

import pytest

from ductor.definitions.compile import compile_text
from ductor.definitions.errors import DefinitionError
from ductor.testing.scenarios.model import Scenario
from ductor.testing.scenarios.suite import MemoryStores, Suite, load_suite

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "conformance.md"
SUITES = {path.name.removesuffix(".scenario.yaml"): load_suite(path) for path in HERE.glob("*.scenario.yaml")}

# How many cases each group of version 1.0.0 has; the groups are numbered from 1 in this order.
CASES = {
    "step": 20,
    "wait": 5,
    "child": 18,
    "callback": 19,
    "invoke": 16,
    "wait_for_condition": 13,
    "wait_for_callback": 15,
    "parallel": 22,
    "map": 20,
    "plugin": 7,
}
# A row of the page's tables: the case, what it is about, and why it does not apply, or a test in Python that shows it.
ROW = re.compile(r"^\| (?P<case>\d+-\d+) \| (?P<about>[^|]+) \| (?P<shown>[^|]*) \|$", re.MULTILINE)

SCENARIOS = [
    pytest.param(suite, scenario, id=f"{group}: {scenario.name}")
    for group, suite in sorted(SUITES.items())
    for scenario in suite.file.scenarios
]


@pytest.mark.parametrize(("suite", "scenario"), SCENARIOS)
def test_case_whenever_the_host_is_killed(suite: Suite, scenario: Scenario):
    assert suite.crash_at_every_commit(scenario, MemoryStores()) == []


def test_a_concurrency_of_nothing_is_refused_when_the_definition_is_compiled():
    scatter = "{ref: a, type: scatter, items_expr: '[1]', concurrency: 0, do: {type: task, task: t}}"
    with pytest.raises(DefinitionError, match="concurrency"):
        compile_text(f"{{name: none, steps: [{scatter}]}}")


def test_the_page_lists_every_case_once_or_for_each_of_its_scenarios():
    expected = {f"{number}-{case}" for number, count in enumerate(CASES.values(), 1) for case in range(1, count + 1)}
    rows = [match.groupdict() for match in ROW.finditer(PAGE.read_text())]
    assert {row["case"] for row in rows} == expected
    names = [f"{row['case']} {row['about']}" for row in rows]
    assert len(names) == len(set(names))


def test_the_page_and_the_scenarios_agree():
    rows = [match.groupdict() for match in ROW.finditer(PAGE.read_text())]
    for group, number in zip(CASES, range(1, len(CASES) + 1), strict=True):
        listed = [
            f"{row['case']} {row['about']}"
            for row in rows
            if row["case"].startswith(f"{number}-") and row["shown"] == "scenario"
        ]
        played = [scenario.name for scenario in SUITES[group].file.scenarios] if group in SUITES else []
        assert listed == played, group


def test_what_applies_is_counted_on_the_page():
    text = PAGE.read_text()
    rows = [match.groupdict() for match in ROW.finditer(text)]
    applying = {row["case"] for row in rows if not row["shown"].startswith("no: ")}
    assert f"{len(applying)} of the {sum(CASES.values())} cases apply" in text
    for row in rows:
        assert row["shown"] == "scenario" or row["shown"].startswith(("no: ", "`test_conformance.py::")), row
