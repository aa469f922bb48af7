"""Scenario files: what they mean, and every mistake named with its line."""

import msgspec
import pytest

from ductor.testing.scenarios.model import ExpectedEvent, ScenarioFileError
from ductor.testing.scenarios.reader import parse_scenarios

WHOLE = """\
definitions: [order.yaml, {name: inline, steps: []}]
handlers:
  inventory.reserve: [{returns: {reservation_id: "r-${input.order_id}"}}]
  payments.charge:
    - {when: n == 1, raises: Timeout, message: "slow ${n}", retry_after: 2s}
    - {takes: 10s, returns: {charge_id: c-1}}
scenarios:
  - name: all is well
    start: order
    input: {order_id: o-1}
    send:
      - {at: 1m, control: cancel, by: boss, request_id: r1}
      - {at: 2m, control: terminate, refused: true}
      - {at: 3m, event: parcel.seen, id: e1, payload: {at: dock}}
    expect:
      {status: completed, output: null, error: null, duration: 1h, steps: {a: skipped}, calls: {payments.charge: 2}}
  - name: another
    start: order
    handlers: {payments.charge: {raises: Declined, retryable: false, details: {code: 5}}}
    send: [{at: 1h, control: redrive, from: reserve, input: {sku: B2}, run: "order#2"}]
    expect: {status: failed, error: Declined, context: {tries: 1}, compensations: []}
    expect_runs: {"order#2": {emitted: [paid, {event: sent, payload: 1}]}}
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(ScenarioFileError) as caught:
        parse_scenarios(text, file="t.yaml")
    return [f"{problem.place.line}:{problem.place.column} {problem.code}" for problem in caught.value.problems]


def test_a_whole_file():
    read = parse_scenarios(WHOLE, file="t.yaml")
    assert read.definitions == ("order.yaml", {"name": "inline", "steps": []})
    first, second = read.handlers["payments.charge"]
    assert first.when is not None
    assert first.when.evaluate_boolean({"n": 1, "input": {}}) is True
    assert first.raises is not None
    assert (first.raises.type, first.raises.retryable, first.raises.retry_after_ms) == ("Timeout", True, 2_000)
    assert first.raises.message.render({"n": 1, "input": {}}) == "slow 1"
    assert second.returns is not None
    assert (second.takes_ms, second.returns.render({"n": 2, "input": {}})) == (10_000, {"charge_id": "c-1"})

    story, other = read.scenarios
    assert (story.name, story.start, story.input) == ("all is well", "order", {"order_id": "o-1"})
    assert [(sent.at_ms, sent.kind, sent.name, sent.by, sent.request_id, sent.refused) for sent in story.send] == [
        (60_000, "control", "cancel", "boss", "r1", False),
        (120_000, "control", "terminate", "", None, True),
        (180_000, "event", "parcel.seen", "", "e1", False),
    ]
    redriven = other.send[0]
    assert (redriven.from_steps, redriven.input, redriven.run) == (("reserve",), {"sku": "B2"}, "order#2")
    assert other.expect_runs["order#2"].emitted == (ExpectedEvent(event="paid"), ExpectedEvent(event="sent", payload=1))
    assert (story.expect.status, story.expect.output, story.expect.error) == ("completed", None, None)
    assert (story.expect.duration_ms, story.expect.steps) == (3_600_000, {"a": "skipped"})
    assert story.expect.calls == {"payments.charge": 2}
    assert story.expect.context is msgspec.UNSET

    (declined,) = other.handlers["payments.charge"]
    assert declined.raises is not None
    assert declined.raises.details.render({}) == {"code": 5}
    assert (other.expect.context, other.expect.compensations) == ({"tries": 1}, ())
    assert other.expect.output is msgspec.UNSET
    assert other.place.line == 17


def test_every_mistake_is_named_at_once():
    text = """\
definitions: [order.yaml]
handler: {}
scenarios:
  - name: a
    start: order
    inputs: {}
    send: [{at: soon, control: cancel}, {at: 1s, control: stop}, {control: cancel}, {at: 1s}]
    expect: {status: done, duration: 5, steps: {a: happy}, calls: {x: -1}}
"""
    assert problems_of(text) == [
        "2:1 unknown_key",
        "6:5 unknown_key",
        "7:17 invalid_duration",
        "7:59 invalid_choice",
        "7:66 missing_key",
        "7:85 nothing_sent",
        "8:22 invalid_choice",
        "8:38 wrong_type",
        "8:52 invalid_choice",
        "8:71 out_of_range",
    ]


def test_expressions_are_checked_when_read():
    text = """\
definitions: [order.yaml]
handlers:
  a: [{when: "n ==", returns: null}, {when: m > 1, returns: "${inptu.x}"}]
scenarios: [{name: a, start: order, expect: {}}]
"""
    codes = problems_of(text)
    assert len(codes) == 3
    assert all(code.startswith("3:") for code in codes)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("{}", "answer_needs_one"),
        ("{returns: 1, raises: Boom}", "answer_needs_one"),
        ("{returns: 1, retryable: false}", "needs_raises"),
    ],
)
def test_an_answer_returns_or_raises(answer: str, code: str):
    text = f"definitions: [o.yaml]\nhandlers: {{a: [{answer}]}}\nscenarios: [{{name: a, start: o, expect: {{}}}}]\n"
    assert problems_of(text) == [f"2:16 {code}"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("signal: a, event: b", "sends_one"),
        ("signal: a, id: x", "misplaced_key"),
        ("signal: a, comment: well", "misplaced_key"),
        ("control: cancel, from: a", "misplaced_key"),
        ("control: pause, payload: 1", "misplaced_key"),
        ('event: e, run: "o#1"', "misplaced_key"),
        ("approve: s", "missing_key"),
        ("reject: s, comment: no", "missing_key"),
        ("case: s, status: done", "missing_key"),
        ("signal: a, run: o", "invalid_run"),
        ('signal: a, run: "o#0"', "invalid_run"),
    ],
)
def test_what_is_sent_is_one_thing_with_what_belongs_to_it(sent: str, code: str):
    text = f"definitions: [o.yaml]\nscenarios: [{{name: a, start: o, send: [{{at: 1s, {sent}}}], expect: {{}}}}]\n"
    assert problems_of(text) == [f"2:40 {code}"]


@pytest.mark.parametrize(
    ("rest", "codes"),
    [
        ("expect: {}", ["limit_missing"]),
        ("limit: 1d, expect: {status: completed}", ["no_run"]),
        ("limit: 1d, send: {at: 1s, signal: a}, expect: {calls: {x: 1}}", ["no_run"]),
        ("limit: 1d", ["nothing_expected"]),
        ("limit: 1d, expect_runs: {o: {}}", ["invalid_run"]),
    ],
)
def test_a_scenario_that_starts_nothing_says_how_long_it_lasts_and_expects_of_named_runs(rest: str, codes: list[str]):
    found = problems_of(f"definitions: [o.yaml]\nscenarios: [{{name: a, {rest}}}]\n")
    assert [problem.split()[1] for problem in found] == codes


@pytest.mark.parametrize("text", ["", "a: 1\n---\nb: 2\n", "definitions: [", "- 1\n"])
def test_what_is_no_scenario_file_is_refused(text: str):
    assert problems_of(text)


def test_scenarios_have_names_of_their_own():
    text = "definitions: [o.yaml]\nscenarios: [{name: a, start: o, expect: {}}, {name: a, start: o, expect: {}}]\n"
    assert problems_of(text) == ["2:46 duplicate_name"]
