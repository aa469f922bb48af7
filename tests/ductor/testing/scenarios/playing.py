"""Scenario files for tests, ready to be played."""

from pathlib import Path

from ductor.testing.scenarios.reader import parse_scenarios
from ductor.testing.scenarios.suite import MemoryStores, Result, Stores, Suite

HEAD = """\
definitions:
  - name: pair
    input: {type: object, properties: {n: {type: integer}}}
    context: {tries: 0}
    output: {sum: "${steps.second.output.value}"}
    steps:
      - {ref: first, type: task, task: do.first, input: {n: "${trigger.n}"}, effects: {tries: 1}, next: second}
      - {ref: second, type: task, task: do.second, retry: {max_attempts: 4, initial: 10s, factor: 2, jitter: 0}}
    defer:
      - {ref: last, type: task, task: do.last, input: {status: "${run.status}"}}
"""


def suite_of(scenarios: str) -> Suite:
    """A suite of the definition `pair` and these scenarios (and handlers)."""
    return Suite(parse_scenarios(HEAD + scenarios, file=str(Path("made-up.scenario.yaml"))))


def play(scenarios: str, stores: Stores | None = None) -> Result:
    """Play the only scenario."""
    suite = suite_of(scenarios)
    (scenario,) = suite.file.scenarios
    return suite.play(scenario, stores or MemoryStores())


def told(result: Result) -> list[str]:
    """What differed, as text."""
    return [str(difference) for difference in result.differences]
