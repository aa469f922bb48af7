"""Scenarios on the real engine: what they may say, and that everything that differs is told."""

import re

import pytest

from ductor.definitions.errors import DefinitionError
from ductor.testing.scenarios.model import ScenarioFile
from ductor.testing.scenarios.reader import parse_scenarios
from ductor.testing.scenarios.report import failure_text
from ductor.testing.scenarios.suite import MemoryStores, Suite
from tests.ductor.testing.scenarios.playing import play, told

GOOD = """\
handlers:
  do.first: {returns: {value: 1}}
  do.second: {returns: {value: "${n + 1}"}}
  do.last: {returns: null}
"""


def test_all_that_is_expected_may_come():
    scenario = """
scenarios:
  - name: good
    start: pair
    input: {n: 1}
    expect:
      status: completed
      output: {sum: 2.0}
      error: null
      context: {tries: 1}
      duration: 0s
      steps: {first: succeeded, second: succeeded, last: succeeded}
      calls: {do.first: 1, do.second: 1, do.last: 1, do.other: 0}
      compensations: []
"""
    assert told(play(GOOD + scenario)) == []


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("{status: failed}", "status: expected failed, found completed"),
        ("{output: {sum: 3}}", 'output: expected {"sum":3}, found {"sum":2}'),
        ("{output: {sum: true}}", 'output: expected {"sum":true}, found {"sum":2}'),
        ("{output: null}", 'output: expected null, found {"sum":2}'),
        ("{error: Boom}", "error: expected Boom, found none"),
        ("{context: {}}", 'context: expected {}, found {"tries":1}'),
        ("{duration: 1s}", "duration: expected 1s, found 0s"),
        ("{steps: {first: skipped}}", "step first: expected skipped, found succeeded"),
        ("{steps: {third: skipped}}", "step third: expected skipped, found no such step"),
        ("{calls: {do.first: 2}}", "calls of do.first: expected 2, found 1"),
        ("{compensations: [undo]}", "compensations: expected undo, found none"),
        ("{compensated: true}", "compensated: expected true, found false"),
        ("{compensated: partial}", 'compensated: expected "partial", found false'),
    ],
)
def test_everything_that_differs_is_told(expected: str, found: str):
    assert told(play(f"{GOOD}scenarios: [{{name: a, start: pair, input: {{n: 1}}, expect: {expected}}}]\n")) == [found]


def test_answers_are_chosen_by_input_and_by_number_and_take_virtual_time():
    text = """
handlers:
  do.first: [{when: input.n > 5, raises: TooBig, message: "${input.n} is too big", retryable: false, details: [1]},
             {takes: 2h, returns: {value: 1}}]
  do.second:
    - {when: n < 3, takes: 1m, raises: Slow}
    - {when: n == 3, raises: Busy, retry_after: 1d}
    - {returns: {value: 5}}
  do.last: {returns: null}
scenarios:
  - name: a
    start: pair
    input: {n: 5}
    expect: {status: completed, output: {sum: 5}, duration: 1d2h2m30s, calls: {do.second: 4}}
"""
    assert told(play(text)) == []
    result = play(text.replace("input: {n: 5}", "input: {n: 6}"))
    assert told(result)[0] == "status: expected completed, found failed (TooBig)"
    assert result.played.view is not None
    error = result.played.view.error
    assert error is not None
    assert (error.message, error.details, error.retryable) == ("6 is too big", [1], False)


def test_a_handler_without_an_answer_is_the_scenarios_mistake():
    text = """
handlers: {do.first: {when: n > 1, returns: null}, do.last: {returns: "${input.nothing}"}}
scenarios: [{name: a, start: pair, input: {n: 1}, expect: {}}]
"""
    first, last = told(play(text))
    assert first == "step `first` called `do.first`: no answer of the scenario fits its 1st call"
    assert last.startswith("step `last` called `do.last`: ")
    assert "nothing" in last


def test_a_handler_that_the_file_forgets_is_named():
    text = "handlers: {do.first: {returns: 1}, do.last: {returns: 1}}\n"
    text += "scenarios: [{name: a, start: pair, input: {n: 1}, expect: {}}]\n"
    assert told(play(text)) == [
        "step `second` called `do.second`: the scenario file has no answer for it under `handlers`"
    ]


def test_a_run_that_cannot_start_is_a_difference():
    text = "scenarios: [{name: a, start: pair, input: {n: text}, expect: {status: completed}}]\n"
    (difference,) = told(play(GOOD + text))
    assert difference.startswith("start: expected a run, found a refusal: TriggerError")
    (difference,) = told(play(GOOD + "scenarios: [{name: a, start: pears, expect: {}}]\n"))
    assert "DefinitionNotFoundError" in difference


def test_controls_are_sent_at_their_time():
    text = """
handlers: {do.first: {takes: 2h, returns: {value: 1}}, do.second: {returns: {value: 1}}, do.last: {returns: null}}
scenarios:
  - name: a
    start: pair
    input: {n: 1}
    send:
      - {at: 1h, control: CONTROL, request_id: r}
      - {at: 1h, control: CONTROL, request_id: r, refused: true}
      - {at: 3h, control: terminate, refused: true}
    expect: {status: STATUS, duration: 1h, steps: {first: cancelled}, calls: {do.last: LAST}}
"""
    cancel = text.replace("CONTROL", "cancel").replace("STATUS", "cancelled").replace("LAST", "1")
    assert told(play(cancel)) == []
    terminate = text.replace("CONTROL", "terminate").replace("STATUS", "terminated").replace("LAST", "0")
    assert told(play(terminate)) == []


def test_a_control_answered_otherwise_is_told():
    text = """
scenarios:
  - name: a
    start: pair
    input: {n: 1}
    send: [{at: 1h, control: cancel}]
    expect: {}
"""
    (difference,) = told(play(GOOD + text))
    assert difference.startswith("cancel after 1h (line 20) was refused: ")
    slow = GOOD.replace("do.first: {", "do.first: {takes: 2h, ") + text.replace("cancel}", "cancel, refused: true}")
    assert told(play(slow)) == ["cancel after 1h (line 20) was accepted, and should have been refused"]


TALKING = """
definitions:
  - name: asking
    steps:
      - ref: vote
        type: approval
        approvers: [ada, "group:board"]
        quorum: 2
        emit: [{event: voted, payload: {by: "${output.by}"}}, {event: never, when: "false"}]
        next: {approved: fill}
      - {ref: fill, type: interaction, ask: How many?, schema: {type: integer}, next: look}
      - {ref: look, type: human_loop, title: Look, next: heard}
      - {ref: heard, type: wait, signal: go, next: seen}
      - {ref: seen, type: wait, event: seen, match: event.payload > 1}
    output: ["${steps.fill.output}", "${steps.look.output.assignee}", "${steps.heard.output}", "${steps.seen.output}"]
  - name: echo
    triggers: [{event: voted, input: "${event.payload}"}]
    steps:
      - {ref: wait, type: wait, signal: stop, timeout: 1d, on_timeout: skip, next: do}
      - {ref: do, type: task, task: do}
handlers: {do: {returns: 1}}
scenarios:
  - name: a
    start: asking
    send:
      - {at: 1m, approve: vote, by: ada, comment: fine}
      - {at: 2m, approve: vote, by: ada, refused: true}
      - {at: 2m, approve: vote, by: bo, refused: true}
      - {at: 3m, approve: vote, by: bo, groups: [board]}
      - {at: 4m, reply: fill, payload: many, refused: true}
      - {at: 5m, reply: fill, payload: 5, by: ada}
      - {at: 6m, case: look, by: ada, assignee: cy, comment: yours}
      - {at: 7m, case: look, by: cy, status: resolved}
      - {at: 7m, control: pause, by: op, reason: lunch}
      - {at: 8m, control: pause, refused: true}
      - {at: 9m, signal: go, payload: {x: 1}, request_id: s}
      - {at: 9m, signal: go, request_id: s, refused: true}
      - {at: 10m, control: resume}
      - {at: 11m, event: seen, payload: 1}
      - {at: 12m, event: seen, id: e, payload: 2}
      - {at: 13m, event: seen, id: e, payload: 3, refused: true}
      - {at: 14m, control: redrive, refused: true}
      - {at: 20m, signal: stop, run: "echo#1"}
    expect:
      status: completed
      output: [5, cy, {x: 1}, 2]
      duration: 12m
      emitted: [{event: voted, payload: {by: bo}}]
      calls: {do: 1}
    expect_runs: {"echo#1": {status: completed, duration: 17m, steps: {wait: succeeded}, calls: {do: 1}, emitted: []}}
"""


def play_talking(*changes: tuple[str, str]) -> list[str]:
    text = TALKING
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    suite = Suite(parse_scenarios(text, file="talking.scenario.yaml"))
    return told(suite.play(suite.file.scenarios[0], MemoryStores()))


def test_everything_can_be_sent_and_expected():
    assert play_talking() == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "payload: {by: bo}}]",
            "payload: {by: ada}}]",
            'payload of emitted voted: expected {"by":"ada"}, found {"by":"bo"}',
        ),
        ("emitted: []", "emitted: [x]", "run echo#1: emitted: expected x, found none"),
        ("duration: 17m", "duration: 1d", "run echo#1: duration: expected 1d, found 17m"),
        ('{"echo#1": {', '{"echo#2": {}, "echo#1": {', "run echo#2: expected a run, found none"),
        ("steps: {wait: succeeded}", "steps: {do: failed}", "run echo#1: step do: expected failed, found succeeded"),
        ("pause, refused: true", "pause", "pause after 8m (line 35) was refused: the run is paused already"),
        ("redrive, refused: true", "redrive", "redrive after 14m (line 42) was refused: the run has completed; name"),
        ("by: bo, refused: true", "by: bo", "approve vote after 2m (line 28) was refused: step vote: bo may not vote"),
        ('run: "echo#1"', 'run: "echo#7"', "line 43: there is no run echo#7 to send `signal` to"),
        ("payload: 3, refused: true", "payload: 3", "event seen after 13m (line 41) was refused: it is a duplicate"),
        ("resume}", "resume, refused: true}", "resume after 10m (line 38) was accepted, and should have been refused"),
    ],
)
def test_what_is_answered_or_comes_out_otherwise_is_told(old: str, new: str, found: str):
    assert any(line.startswith(found) for line in play_talking((old, new)))


def test_what_is_sent_survives_every_kill():
    # hours apart, so that what a kill delays until the next sweep is done before the next message comes
    text = re.sub(r"at: (\d+)m", r"at: \1h", TALKING)
    suite = Suite(parse_scenarios(text, file="talking.scenario.yaml"))
    assert suite.crash_at_every_commit(suite.file.scenarios[0], MemoryStores()) == []


def test_a_scenario_ends_at_its_limit():
    text = GOOD.replace("do.first: {", "do.first: {takes: 300d, ")
    text += "scenarios: [{name: a, start: pair, input: {n: 1}, limit: 10d, expect: {status: running, duration: 0s}}]\n"
    assert told(play(text)) == []


def test_the_report_shows_the_place_the_differences_and_the_history():
    result = play(GOOD + "scenarios: [{name: a, start: pair, input: {n: 1}, expect: {status: failed}}]\n")
    text = failure_text(result.scenario, result.played, result.differences)
    assert text.splitlines()[:3] == [
        "made-up.scenario.yaml:15: scenario `a`",
        "  status: expected failed, found completed",
        "  what happened:",
    ]
    assert "run_started" in text
    assert "run_ended" in text


def test_every_problem_of_the_definitions_is_told():
    file = ScenarioFile(file="x.scenario.yaml", definitions=("nowhere.yaml", {"name": "x"}), handlers={}, scenarios=())
    with pytest.raises(DefinitionError, match=r"nowhere\.yaml") as caught:
        Suite(file)
    assert len(caught.value.problems) >= 2
