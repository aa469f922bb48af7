"""`emit` and `signal`: what a step sends with the row that settles it."""

import pytest

from ductor.actors.recorded_programs import RunPrograms
from ductor.actors.verify import recomputed
from ductor.definitions.values import JsonValue
from ductor.journal.events import EventEmitted, SignalSent
from ductor.journal.store import MAX_EVENT_PAYLOAD_BYTES
from tests.actors.tick.driver import Driver

RUN_ID = "0198f5d2-0000-7000-8000-000000000001"
OTHER = "0198f5d2-0000-7000-8000-000000000002"

SENDER = """
context: {n: 1}
steps:
  - ref: a
    type: task
    task: t
    effects: {n: "${output.n}"}
    emit:
      - {event: done, payload: {n: "${output.n}", before: "${context.n}"}}
      - {event: large, when: output.n > 5}
    signal:
      - {run: "${trigger.other}", name: go, payload: "${output}"}
"""


def sender(text: str = SENDER, other: str = OTHER) -> Driver:
    return Driver(text, {"other": other}, run_id=RUN_ID)


def test_a_step_sends_once_it_has_succeeded():
    run = sender()
    assert (run.published, run.sent) == ([], [])
    run.finish("a", {"n": 3})
    (event,) = run.published
    assert (event.tenant, event.event_id, event.name) == ("t", f"{RUN_ID}/a/1/0", "done")
    assert (event.payload, event.source) == ({"n": 3, "before": 1}, f"{RUN_ID}/a")
    (sent,) = run.sent
    assert sent.run_id == OTHER
    message = sent.message
    assert (message.id, message.kind, message.name) == (f"{RUN_ID}/a/1/signal/0", "signal", "go")
    assert (message.payload, message.by) == ({"n": 3}, f"run:{RUN_ID}")


def test_what_is_sent_stands_in_the_row():
    run = sender()
    run.finish("a", {"n": 9})
    kinds = [type(event) for event in run.events() if isinstance(event, EventEmitted | SignalSent)]
    assert kinds == [EventEmitted, EventEmitted, SignalSent]
    assert [event.name for event in run.published] == ["done", "large"]


def test_ids_are_the_same_when_the_row_is_computed_again():
    run = sender()
    before = run.folded()
    payload = run.finish("a", {"n": 9})
    assert recomputed(RunPrograms(run.program), before, payload.events, run.state.at_us) == run.rows[-1].events


def test_a_step_that_is_redriven_sends_anew():
    run = sender(SENDER + "    next: b\n  - {ref: b, type: task, task: t}\n")
    run.finish("a", {"n": 1})
    run.fail("b")
    for number in range(1, 4):
        arguments: dict[str, JsonValue] = {"from": ["a"]}
        run.request("redrive", f"r-{number}", **arguments)
        run.finish("a", {"n": 1})
        run.fail("b")
    ids = [event.event_id for event in run.published]
    assert len(ids) == len(set(ids)) == 4


def test_a_step_of_the_tick_that_is_redriven_sends_anew():
    run = sender(
        """
        steps:
          - {ref: a, type: transform, value: 1, emit: [{event: done}], next: b}
          - {ref: b, type: task, task: t}
        """
    )
    run.fail("b")
    for number in range(1, 4):
        run.request("redrive", f"r-{number}", **{"from": "a"})
        run.fail("b")
    ids = [event.event_id for event in run.published]
    assert len(ids) == len(set(ids)) == 4


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("emit: [{event: x}, {event: y, payload: '${output.missing}'}]", "missing"),
        ("emit: [{event: x}, {event: y, when: output.missing}]", "missing"),
        ("emit: [{event: x}, {event: y, when: '1'}]", "not bool"),
        ("emit: [{event: x}], signal: [{run: nowhere, name: n}]", "'nowhere' is no run id"),
        ("emit: [{event: x}], signal: [{run: '${output.run}', name: n}]", "7 is no run id"),
        ("emit: [{event: x}], signal: [{run: '${output.large}', name: n}]", "is no run id"),
    ],
)
def test_a_step_that_can_not_say_what_it_sends_fails_and_sends_nothing(part: str, said: str):
    run = Driver(f"steps: [{{ref: a, type: task, task: t, effects: {{x: 1}}, {part}}}]", run_id=RUN_ID)
    run.finish("a", {"run": 7, "large": "x" * 1_000})
    assert (run.state.status, run.published, run.sent, run.state.context) == ("failed", [], [], {})
    assert run.state.error is not None
    assert said in run.state.error.message
    assert run.state.nodes["a"].output is not None


@pytest.mark.parametrize(
    ("part", "size", "fits"),
    [
        ("emit: [{event: x, payload: '${output}'}]", MAX_EVENT_PAYLOAD_BYTES - 2, True),
        ("emit: [{event: x, payload: '${output}'}]", MAX_EVENT_PAYLOAD_BYTES - 1, False),
        (f"signal: [{{run: {OTHER}, name: x, payload: '${{output}}'}}]", 32_766, True),
        (f"signal: [{{run: {OTHER}, name: x, payload: '${{output}}'}}]", 32_767, False),
    ],
)
def test_what_is_sent_is_bounded(part: str, size: int, fits: bool):
    run = Driver(f"steps: [{{ref: a, type: task, task: t, {part}}}]", run_id=RUN_ID)
    run.finish("a", "x" * size)
    assert run.state.status == ("completed" if fits else "failed")
    assert bool(run.published or run.sent) == fits


@pytest.mark.parametrize(
    "step",
    [
        "{ref: a, type: task, task: t, on_error: continue, EMIT}",
        "{ref: a, type: wait, signal: go, timeout: 1s, EMIT, next: {timeout: late}}",
        "{ref: a, type: wait, signal: go, timeout: 1s, on_timeout: skip, EMIT}",
        "{ref: a, type: transform, value: 1, run_if: 'false', EMIT}",
    ],
)
def test_only_success_sends(step: str):
    run = Driver(
        f"steps: [{step.replace('EMIT', 'emit: [{event: x}]')}, {{ref: late, type: transform, value: 1}}]",
        run_id=RUN_ID,
    )
    if "a" in run.in_flight:
        run.fail("a")
    run.advance(1)
    assert run.state.status == "completed"
    assert run.published == []


def test_a_parked_step_sends_what_it_was_told():
    run = Driver("steps: [{ref: a, type: wait, signal: go, emit: [{event: x, payload: '${output}'}]}]", run_id=RUN_ID)
    run.signal("go", 5)
    assert [event.payload for event in run.published] == [5]


def test_a_deferred_step_sends_too():
    run = Driver(
        """
        steps: [{ref: a, type: task, task: t}]
        defer: [{ref: tell, type: transform, value: 1, emit: [{event: over, payload: "${run.status}"}]}]
        """,
        run_id=RUN_ID,
    )
    run.fail("a")
    assert [event.payload for event in run.published] == ["failed"]


def test_a_step_that_succeeds_while_its_run_is_closing_sends_too():
    run = Driver(
        "steps: [{ref: a, type: task, task: t, emit: [{event: x}]}, {ref: b, type: task, task: t}]", run_id=RUN_ID
    )
    run.fail("b")
    run.finish("a")
    assert [event.name for event in run.published] == ["x"]
