"""What-if: recorded inputs fed to other definitions, and the verdicts on a table of changes."""

from collections.abc import Callable

import pytest

from ductor.actors.what_if import what_if
from ductor.actors.what_if_verdict import WhatIf
from ductor.definitions.values import JsonObject
from tests.actors.recorded import programs_of, recorded
from tests.actors.tick.driver import Driver

ORDER = """\
input: {type: object, required: [sku], properties: {sku: {type: string}}}
context: {total: 0}
output: {tracking: "${steps.ship.output.tracking}"}
steps:
  - ref: reserve
    type: task
    task: inventory.reserve
    input: {sku: "${trigger.sku}"}
    retry: {max_attempts: 3, initial: 1s, jitter: 0}
    effects: {total: "${output.total}"}
    next: {choice: [{when: output.total > 100, to: approve}, {to: charge}]}
  - {ref: approve, type: wait, signal: go, timeout: 7d, next: charge}
  - {ref: charge, type: task, task: payments.charge, join: any, input: {total: "${context.total}"}, next: price}
  - {ref: price, type: transform, value: {value: "${steps.charge.output.amount * 2}"}, next: ship}
  - {ref: ship, type: task, task: shipping.book, input: {value: "${steps.price.output.value}"}, next: thank}
  - {ref: thank, type: task, task: mail.send}
"""


def in_the_middle(text: str = ORDER) -> Driver:
    """Reserved at the second attempt, charged, being shipped."""
    run = Driver(text, {"sku": "A1"})
    run.fail("reserve")
    run.advance(1)
    run.finish("reserve", {"total": 10})
    run.finish("charge", {"amount": 5})
    return run


def completed(text: str = ORDER) -> Driver:
    run = in_the_middle(text)
    run.finish("ship", {"tracking": "T-1"})
    run.finish("thank")
    assert run.state.status == "completed"
    return run


def failed(type: str = "Declined", *, retryable: bool = False) -> Driver:
    """The charge has failed for good."""
    run = Driver(ORDER, {"sku": "A1"})
    run.finish("reserve", {"total": 10})
    run.fail("charge", type, retryable=retryable)
    assert run.state.status == "failed"
    return run


def waiting(text: str = ORDER) -> Driver:
    """A dear order waits for its signal, one that nobody waits for lies in the inbox."""
    run = Driver(text, {"sku": "A1"})
    run.finish("reserve", {"total": 1_000})
    run.signal("other", 1)
    return run


def replaced(*pairs: tuple[str, str]) -> str:
    text = ORDER
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def tried(run: Driver, text: str) -> WhatIf:
    return what_if(recorded(run, ORDER), programs_of(ORDER), programs_of(text))


UNREACHED_STEP = ("  - {ref: thank, type: task, task: mail.send}\n", "")
INSERTED = """\
  - {ref: charge, type: task, task: payments.charge, join: any, input: {total: "${context.total}"}, next: check}
  - {ref: check, type: task, task: fraud.check, next: price}
"""
CHARGE = next(line for line in ORDER.splitlines(keepends=True) if "ref: charge" in line)

CAUGHT = """, on_error: continue, next: {success: price, error: apologise}}
  - {ref: apologise, type: task, task: mail.apologise}"""
OUTPUT = 'output: {tracking: "${steps.ship.output.tracking}"}'

CHANGES: dict[str, tuple[Callable[[], Driver], str, str, str]] = {
    "nothing": (in_the_middle, ORDER, "safe", ""),
    "nothing, of a run that has completed": (completed, ORDER, "safe", ""),
    "nothing, of a run that has failed": (failed, ORDER, "safe", ""),
    "nothing, of a run that waits": (waiting, ORDER, "safe", ""),
    "a version label": (in_the_middle, "version: better\n" + ORDER, "safe", ""),
    "a step after those that have begun": (
        in_the_middle,
        replaced(("task: mail.send}", "task: mail.send, next: log}\n  - {ref: log, type: task, task: log}")),
        "safe",
        "",
    ),
    "a step that was not reached is gone": (
        in_the_middle,
        replaced((", next: thank}", "}"), UNREACHED_STEP),
        "safe",
        "",
    ),
    "a step that was skipped is gone": (
        in_the_middle,
        replaced(
            ("{choice: [{when: output.total > 100, to: approve}, {to: charge}]}", "charge"),
            ("  - {ref: approve, type: wait, signal: go, timeout: 7d, next: charge}\n", ""),
        ),
        "safe",
        "",
    ),
    "more attempts where there were enough": (
        in_the_middle,
        replaced(("max_attempts: 3", "max_attempts: 9")),
        "safe",
        "",
    ),
    "a longer timeout of a step that waits": (waiting, replaced(("timeout: 7d", "timeout: 9d")), "safe", ""),
    "a choice written otherwise": (in_the_middle, replaced(("output.total > 100", "output.total >= 101")), "safe", ""),
    "a condition that lets another branch run": (
        in_the_middle,
        replaced(("output.total > 100", "output.total > 1")),
        "needs mapping",
        "step charge",
    ),
    "a settled step has another name": (
        in_the_middle,
        replaced(
            ("ref: charge", "ref: bill"),
            ("to: charge", "to: bill"),
            ("next: charge", "next: bill"),
            ("steps.charge", "steps.bill"),
        ),
        "needs mapping",
        "step charge: it has succeeded, and the other definition has no such step",
    ),
    "a step is new between two that are done": (
        in_the_middle,
        replaced((CHARGE, INSERTED)),
        "needs mapping",
        "step check: it is new, and would be running by now",
    ),
    "a step is new beside one that is done": (
        in_the_middle,
        replaced((", next: price}", ", next: [price, audit]}\n  - {ref: audit, type: task, task: audit}")),
        "needs mapping",
        "step audit: it is new, and would be running by now",
    ),
    "a settled step gets another input": (
        in_the_middle,
        replaced(('input: {total: "${context.total}"}', 'input: {total: "${context.total + 1}"}')),
        "needs mapping",
        "step charge: its recorded result is for another input",
    ),
    "a settled step has another handler": (
        in_the_middle,
        replaced(("task: payments.charge", "task: payments.charge_v2")),
        "needs mapping",
        "step charge: its recorded result is for another task",
    ),
    "a transform computes another output": (
        in_the_middle,
        replaced(("amount * 2", "amount * 3")),
        "needs mapping",
        "step price: it would have another output",
    ),
    "an effect that is gone": (
        completed,
        replaced(('    effects: {total: "${output.total}"}\n', "")),
        "needs mapping",
        "`context.total` would have another value",
    ),
    "another output of the run": (
        completed,
        replaced(
            ('output: {tracking: "${steps.ship.output.tracking}"}', 'output: {code: "${steps.ship.output.tracking}"}')
        ),
        "needs mapping",
        "the run would have ended with another output",
    ),
    "a failure that is lived with, and an output that needs it": (
        failed,
        replaced(("task: payments.charge,", "task: payments.charge, on_error: continue,")),
        "needs mapping",
        "the run would have ended with another output or error",
    ),
    "a failure that is lived with": (
        failed,
        replaced(("task: payments.charge,", "task: payments.charge, on_error: continue,"), (OUTPUT + "\n", "")),
        "impossible",
        "the run has failed, and would have completed",
    ),
    "a failure that is caught": (
        failed,
        replaced((", next: price}", CAUGHT)),
        "needs mapping",
        "step apologise: it is new, and would be running by now",
    ),
    "one attempt more where all had failed": (
        lambda: failed(type="Timeout", retryable=True),
        replaced(("task: payments.charge,", "task: payments.charge, retry: {max_attempts: 2},")),
        "needs mapping",
        "the run has failed, and would be waiting",
    ),
    "fewer attempts than it took": (
        in_the_middle,
        replaced(("max_attempts: 3", "max_attempts: 1")),
        "impossible",
        "step reserve: it has succeeded after 2 attempts, and would have failed",
    ),
    "another type of step": (
        in_the_middle,
        replaced(
            (
                'ref: charge, type: task, task: payments.charge, join: any, input: {total: "${context.total}"}',
                "ref: charge, type: transform, join: any, value: {amount: 5}",
            )
        ),
        "impossible",
        "step charge: it is a task that has succeeded, and would be a transform",
    ),
    "a guard that skips what has run": (
        in_the_middle,
        replaced(("ref: ship, type: task,", "ref: ship, type: task, run_if: trigger.sku == 'B2',")),
        "impossible",
        "step ship: it has begun, and would not have run",
    ),
    "an input that would be refused": (
        in_the_middle,
        replaced(("required: [sku]", "required: [sku, qty]")),
        "impossible",
        "the run could not have been started",
    ),
    "an expression that fails": (
        in_the_middle,
        replaced(("steps.charge.output.amount * 2", "steps.charge.output.price * 2")),
        "impossible",
        "the run is running, and would have failed",
    ),
    "a wait for another signal": (waiting, replaced(("signal: go", "signal: other")), "impossible", "step approve"),
    "a timeout that would be over": (
        lambda: _late(waiting()),
        replaced(("timeout: 7d", "timeout: 2h")),
        "impossible",
        "step approve",
    ),
}


def _late(run: Driver) -> Driver:
    """A day later something comes in."""
    run.advance(86_400)
    run.signal("other", 2)
    return run


@pytest.mark.parametrize("change", CHANGES)
def test_verdicts_on_changes(change: str):
    make, text, verdict, reason = CHANGES[change]
    found = tried(make(), text)
    told = [each.text for each in found.reasons]
    assert found.verdict == verdict, told
    assert any(reason in each for each in told) or not reason, told
    assert bool(found.reasons) == (verdict != "safe")


def test_the_same_definition_decides_the_same_whatever_happened():
    for make in (in_the_middle, completed, failed, waiting, lambda: _late(waiting())):
        found = tried(make(), ORDER)
        assert (found.verdict, found.first_difference, found.open_steps) == ("safe", None, ())
        assert {step.finding for step in found.steps} == {"same"}
        assert found.recorded_status == found.what_if_status


def test_the_first_decision_that_differs_is_told():
    found = tried(in_the_middle(), CHANGES["a settled step has another handler"][1])
    difference = found.first_difference
    assert difference is not None
    assert (difference.version, difference.event_index) == (4, 4)
    assert isinstance(difference.expected, dict)
    assert isinstance(difference.actual, dict)
    assert (difference.expected["type"], difference.expected["task"]) == ("attempt_dispatched", "payments.charge")
    assert difference.actual["task"] == "payments.charge_v2"


def test_steps_are_told_beside_each_other():
    found = tried(in_the_middle(), CHANGES["a step is new between two that are done"][1])
    steps = {step.step: (step.finding, step.recorded, step.what_if) for step in found.steps}
    assert steps["check"] == ("new", "", "running")
    assert steps["reserve"] == ("same", "succeeded", "succeeded")
    assert steps["ship"] == ("differs", "running", "pending")
    assert found.open_steps == ("check",)


def test_a_result_that_comes_before_it_is_asked_for_is_taken_later():
    """`b` and `c` were side by side; now `c` waits for `b`, whose result came last."""
    beside = """
        output: done
        steps:
          - {ref: a, type: task, task: work, next: [b, c]}
          - {ref: b, type: task, task: work}
          - {ref: c, type: task, task: work}
    """
    run = Driver(beside)
    run.finish("a")
    run.finish("c", 3)
    run.finish("b", 2)
    after = beside.replace("next: [b, c]}", "next: b}").replace(
        "ref: b, type: task, task: work", "ref: b, type: task, task: work, next: c"
    )
    found = what_if(recorded(run, beside), programs_of(beside), programs_of(after))
    assert (found.verdict, found.what_if_status) == ("safe", "completed"), found.reasons
    assert found.first_difference is not None


def test_messages_that_would_reach_nobody_are_told():
    asked = """
        steps:
          - {ref: ask, type: approval, approvers: [ann], next: {done: rest}}
          - {ref: rest, type: task, task: work}
    """
    run = Driver(asked)
    run.vote("ask", "approved", "ann")
    after = asked.replace("- {ref: ask", "- {ref: first, type: task, task: work, next: ask}\n          - {ref: ask")
    found = what_if(recorded(run, asked), programs_of(asked), programs_of(after))
    assert found.verdict == "needs mapping"
    assert any("vote for step ask" in reason.text for reason in found.reasons)


def test_a_control_that_would_be_refused_is_told():
    run = failed()
    named: JsonObject = {"from": ["charge"]}
    run.request("redrive", "c-1", **named)
    found = tried(run, CHANGES["a settled step has another name"][1])
    assert any("would be refused: the run has not ended" in reason.text for reason in found.reasons)


def test_pauses_are_gone_through_as_recorded():
    run = Driver(ORDER, {"sku": "A1"})
    run.request("pause")
    run.advance(100)
    run.request("resume", "c-2")
    run.finish("reserve", {"total": 10})
    assert tried(run, ORDER).verdict == "safe"
    assert tried(run, replaced(("task: mail.send", "task: mail.post"))).verdict == "safe"


def test_what_the_recorded_run_goes_through_is_left_as_it_is():
    run = recorded(in_the_middle(), ORDER)
    before = [row.events for row in run.rows]
    what_if(run, programs_of(ORDER), programs_of(CHANGES["a settled step gets another input"][1]))
    assert [row.events for row in run.rows] == before
