"""The pytest plugin, in a pytest of its own."""

from pathlib import Path

import pytest

from tests.ductor.flows import ORDER, SCENARIOS

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    (pytester.path / "order.yaml").write_text(ORDER)
    (pytester.path / "order.scenario.yaml").write_text(SCENARIOS)
    return pytester


def test_each_scenario_is_a_test(project: pytest.Pytester):
    result = project.runpytest_subprocess("-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*order.scenario.yaml::declined PASSED*"])


def test_a_scenario_that_differs_fails_with_its_story(project: pytest.Pytester):
    file: Path = project.path / "order.scenario.yaml"
    file.write_text(SCENARIOS.replace("duration: 2h1s", "duration: 2h"))
    result = project.runpytest_subprocess()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*duration: expected 2h, found 2h1s*", "*what happened:*", "*run_started*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_file_with_mistakes_is_a_collection_error_that_names_them(project: pytest.Pytester):
    (project.path / "bad.scenario.yaml").write_text("definitions: [order.yaml]\nscenarios: [{name: a}]\n")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*bad.scenario.yaml:2:*nothing is expected*"])


def test_hosts_are_killed_on_demand(project: pytest.Pytester):
    project.makepyfile(
        """
        def test_survives(crash_at_every_commit):
            crash_at_every_commit("order.scenario.yaml", "the first charge is slow")
        """
    )
    project.runpytest_subprocess("--ductor-crash").assert_outcomes(passed=4)


def test_scenarios_are_played_on_postgres_on_demand(project: pytest.Pytester):
    project.runpytest_subprocess("--ductor-store", "postgres", "order.scenario.yaml").assert_outcomes(passed=3)
