"""Why steps have not begun, why they run still, why they did not succeed, and why a whole run stands where it does."""

import msgspec

from ductor.actors.explain import MAX_DEPTH, MAX_STEPS_TOLD, explain, lines
from ductor.journal.events import RunPaused, TickLimited
from ductor.journal.fold import fold_row
from ductor.journal.records import HostRecord
from tests.actors.explaining import HOST, all_reasons, explained, pause, run_reason, send, step_reason
from tests.actors.tick.driver import SECOND_US, Driver

JOINED = """
steps:
  - {{ref: a, type: task, task: work, on_error: continue, next: {{success: [c], error: [d]}}}}
  - {{ref: b, type: task, task: work, next: c}}
  - {{ref: d, type: task, task: work}}
  - {{ref: c, type: task, task: work, join: {join}, next: e}}
  - {{ref: e, type: task, task: work}}
"""


def joined(join: object) -> Driver:
    return Driver(JOINED.format(join=join))


def test_a_join_of_all_names_the_sources_that_are_missing():
    driver = joined("all")
    driver.finish("a")
    reason = step_reason(driver, "c")
    assert reason.kind == "join"
    assert reason.details == {"join": "all", "sources": 2, "settled": 1, "taken": 1}
    settled, missing = reason.children
    assert (settled.kind, settled.ref, settled.details["taken"]) == ("edge", "a", True)
    assert (missing.kind, missing.ref) == ("told_elsewhere", "b")
    assert "1 of 2 have settled" in reason.text


def test_a_join_of_every_and_of_k_and_of_any_say_how_many_they_need():
    assert "all lead here" in step_reason(joined("every"), "c").text
    driver = joined(2)
    driver.finish("a")
    reason = step_reason(driver, "c")
    assert reason.text.startswith("waits until 2 of its sources lead here")
    assert (reason.details["taken"], reason.details["settled"]) == (1, 1)
    any_of = joined("any")
    any_of.fail("a")
    reason = step_reason(any_of, "c")
    assert reason.text.startswith("waits until 1 of its sources lead here (`join: any`): 0 do")
    assert "settled with `error`, its edge to `c` stands under `success`" in reason.children[0].text


def test_what_a_step_waits_for_lies_beneath_it_and_is_told_once():
    driver = joined("all")
    found = explained(driver)
    assert [reason.ref for reason in found.steps] == ["a", "b", "e", "d"]
    (beneath,) = found.steps[2].children
    assert (beneath.ref, beneath.kind) == ("c", "join")
    told = [reason.ref for reason in all_reasons(found) if reason.kind in ("running", "join")]
    assert sorted(told) == ["a", "b", "c", "d", "e"]


def test_a_long_chain_is_told_in_pieces_of_bounded_depth_and_a_huge_run_is_cut():
    count = MAX_STEPS_TOLD + 5
    refs = [f"s{number}" for number in range(count)]
    steps = [
        f"  - {{ref: {ref}, type: task, task: work" + (f", next: {after}}}" if after else "}")
        for ref, after in zip(refs, [*refs[1:], ""], strict=True)
    ]
    found = explained(Driver("steps:\n" + "\n".join(steps)))
    assert found.omitted == 5
    assert lines(found)[-1] == "  and 5 more steps"
    told = [reason.ref for reason in all_reasons(found) if reason.kind in ("running", "join")]
    assert len(told) == len(set(told)) == MAX_STEPS_TOLD
    assert max(len(line) - len(line.lstrip()) for line in lines(found)) == 2 * (MAX_DEPTH + 2)


def test_a_guard_is_told_with_the_values_it_sees():
    driver = Driver(
        """
        steps:
          - {ref: a, type: task, task: work, next: b}
          - {ref: b, type: task, task: work, run_if: "trigger.total > 10 && steps.a.output.ok"}
        """,
        {"total": 12},
    )
    _, guard = step_reason(driver, "b").children
    assert guard.kind == "guard"
    assert guard.details["values"] == {"trigger.total": 12}
    assert "steps.a.output.ok" in msgspec.to_builtins(guard.details["missing"])
    assert guard.details["holds"] is None
    assert "fails to evaluate" in guard.text


def test_a_running_step_names_its_handler_and_whether_anybody_has_it():
    driver = Driver(
        "steps: [{ref: a, type: task, task: work, timeout: {total: 1m}, retry: {max_attempts: 3, initial: 1s}}]"
    )
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.since_us, reason.until_us) == ("running", SECOND_US, 61 * SECOND_US)
    assert reason.details == {"task": "work", "attempt": 1, "generation": 1, "queue": "default"}
    assert reason.children == ()
    strangers = HostRecord(host_id="there", started_at_us=0, heartbeat_at_us=0, tasks=("mail",))
    (nobody,) = step_reason(driver, "a", strangers).children
    assert (nobody.kind, nobody.details) == ("no_worker", {"task": "work", "hosts": ["there"]})
    assert step_reason(driver, "a", strangers, HOST).children == ()


def test_a_second_round_is_told_as_such():
    driver = Driver("steps: [{ref: a, type: task, task: work, repeat: {until: output.done}}]")
    driver.finish("a", {"done": False})
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.details["round"]) == ("running", 2)
    assert "round 2" in reason.text


def test_without_any_host_the_run_and_its_attempts_say_so():
    driver = Driver("steps: [{ref: a, type: task, task: work}]")
    found = explained(driver)
    assert [reason.kind for reason in found.run] == []
    alone = explain(driver.state, driver.program, hosts=(), now_us=driver.now_us)
    assert [reason.kind for reason in alone.run] == ["no_host"]
    assert alone.steps[0].children[0].text == "no host is alive that could run it"


def test_a_run_that_nobody_has_looked_at_is_ready():
    driver = Driver("steps: [{ref: a, type: task, task: work, run_if: 'true'}]", starts=False)
    fold_row(driver.state, 1, driver.now_us, b"", [driver.started, TickLimited()])
    assert driver.state.status == "pending"
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.text, reason.details) == ("ready", "begins with the next tick", {"will_run": True})
    assert reason.children[0].details["holds"] is True
    assert run_reason(driver, "next_tick").text == "its next tick goes on with steps that are ready"


def test_a_paused_run_names_who_paused_it_and_lets_its_timers_stand_still():
    driver = Driver(
        """
        timeout: 1h
        steps:
          - {ref: a, type: wait, duration: 10s}
          - {ref: b, type: wait, until: "2030-01-01T00:00:00Z"}
          - {ref: c, type: task, task: work}
        """
    )
    driver.now_us += 4 * SECOND_US
    pause(driver)
    driver.now_us += 100 * SECOND_US
    paused = run_reason(driver, "paused")
    assert (paused.since_us, paused.details) == (5 * SECOND_US, {"by": "ann", "reason": "audit"})
    waiting = step_reason(driver, "a")
    assert (waiting.until_us, "6s are left when the run is resumed" in waiting.text) == (None, True)
    fixed = step_reason(driver, "b")
    assert fixed.until_us == driver.state.timers.due_at_us("b")
    assert "kept until the run is resumed" in step_reason(driver, "c").text
    timeout = run_reason(driver, "run_timeout")
    assert (timeout.until_us, "59m56s are left" in timeout.text) == (None, True)


def test_a_ready_step_of_a_paused_run_begins_when_it_is_resumed():
    driver = Driver("steps: [{ref: a, type: task, task: work}]", starts=False)
    fold_row(driver.state, 1, driver.now_us, b"", [driver.started, TickLimited()])
    fold_row(driver.state, 2, driver.now_us, b"", [RunPaused(by="ann")])
    assert step_reason(driver, "a").text == "begins when the run is resumed"
    assert [reason.kind for reason in explained(driver).run] == ["paused"]


def test_the_timeout_of_a_run_is_told():
    driver = Driver("timeout: 1h\nsteps: [{ref: a, type: task, task: work}]")
    timeout = run_reason(driver, "run_timeout")
    assert (timeout.since_us, timeout.until_us) == (SECOND_US, 3601 * SECOND_US)
    assert timeout.details == {"timeout_ms": 3_600_000, "on_timeout": "fail"}


def test_a_run_that_is_ending_says_how_and_what_is_in_flight():
    driver = Driver(
        """
        steps:
          - {ref: a, type: task, task: work, next: c}
          - {ref: b, type: task, task: work}
          - {ref: c, type: task, task: work}
        defer: [{ref: z, type: task, task: work}]
        """
    )
    assert step_reason(driver, "z").kind == "deferred"
    driver.fail("b")
    ending = run_reason(driver, "ending")
    assert ending.details == {"status": "failed", "reason": "step b failed"}
    assert ending.until_us == driver.state.timers.due_at_us("@grace")
    assert "1 attempts in flight were told to stop" in ending.text
    assert "told to stop" in step_reason(driver, "a").text
    assert step_reason(driver, "c").kind == "not_reached"
    driver.stopped("a")
    assert "its steps of `defer` run" in run_reason(driver, "ending").text
    assert step_reason(driver, "z").kind == "running"


def test_a_run_set_aside_says_why():
    driver = Driver("steps: [{ref: a, type: task, task: work}]")
    (reason,) = explained(driver, set_aside="poison in version 3").run
    assert (reason.kind, reason.details) == ("set_aside", {"error": "poison in version 3"})


def test_signals_that_nothing_waits_for_are_counted():
    driver = Driver("steps: [{ref: a, type: task, task: work}]")
    send(driver, "signal", name="paid")
    driver.now_us += SECOND_US
    send(driver, "signal", name="paid")
    send(driver, "signal", name="shipped")
    reason = run_reason(driver, "buffered_signals")
    assert (reason.details, reason.since_us) == ({"count": 3, "names": ["paid", "shipped"]}, SECOND_US)


def test_of_an_ended_run_it_is_told_why_steps_did_not_succeed():
    driver = Driver(
        """
        steps:
          - ref: a
            type: task
            task: work
            next: {success: {choice: [{when: output.total > 10, to: big}, {to: small}]}}
          - {ref: big, type: task, task: work, next: after}
          - {ref: after, type: task, task: work}
          - {ref: small, type: task, task: work, run_if: trigger.wanted, next: c}
          - {ref: c, type: task, task: work, retry: {max_attempts: 2, initial: 1s}, next: d}
          - {ref: d, type: task, task: work}
        """,
        {"wanted": False},
    )
    driver.finish("a", {"total": 7})
    driver.fail("c")
    driver.advance(2)
    driver.fail("c", type="Declined")
    assert driver.state.status == "failed"
    big = step_reason(driver, "big")
    assert (big.kind, big.text) == ("skipped", "skipped: too few edges led here for `join: all`")
    (edge,) = big.children
    assert edge.text == "the choice of `a` under `success` led elsewhere than to `big`"
    assert edge.children[0].details["values"] == {"output.total": 7}
    assert edge.children[0].details["holds"] is False
    assert step_reason(driver, "after").children[0].text == "`big` was skipped: its edges are not taken"
    small = step_reason(driver, "small")
    assert (small.text, small.children[0].details["values"]) == (
        "skipped by its guard `run_if`",
        {"trigger.wanted": False},
    )
    failed = step_reason(driver, "c")
    assert failed.text == "failed with Declined: c failed; all 2 attempts are used"
    assert failed.details["attempts"] == 2
    never = step_reason(driver, "d")
    assert (never.kind, never.text) == ("not_reached", "never began: the run ended as failed before")
    assert never.children[0].text == "`c` failed and `on_error` is `fail`: none of its edges is taken"
    assert run_reason(driver, "ended").details["reason"] == "step c failed"


def test_a_failure_says_why_it_was_not_tried_again():
    for settings, arguments, said in (
        ("", {}, "no retry policy of the step is for that"),
        (", retry: {max_attempts: 3, only: [Other]}", {}, "no retry policy of the step is for that"),
        (", retry: {max_attempts: 3}", {"retryable": False}, "no retry can mend that"),
        (", retry: {max_attempts: 3}, timeout: {total: 1s}", {"retry_after_ms": 5_000}, "no time was left"),
    ):
        driver = Driver(f"steps: [{{ref: a, type: task, task: work{settings}}}]")
        driver.fail("a", **arguments)
        assert said in step_reason(driver, "a").text


def test_a_failure_without_attempts_speaks_of_no_retries():
    driver = Driver("steps: [{ref: a, type: transform, value: '${trigger.a.b}'}]")
    assert step_reason(driver, "a").text.startswith("failed with ExpressionError: ")
    assert "retry" not in step_reason(driver, "a").text.rsplit(";", 1)[-1]


def test_a_cancelled_step_names_who_cancelled_it():
    driver = Driver(
        """
        on: [{signal: stop, cancels: [b]}]
        steps:
          - {ref: a, type: task, task: work, cancels: [b]}
          - {ref: b, type: wait, signal: never, on_error: continue}
        """
    )
    driver.finish("a")
    assert step_reason(driver, "b").text == "cancelled by step `a`, which lists it under `cancels`"

    stopped = Driver("on: [{signal: stop, cancels: [b]}]\nsteps: [{ref: b, type: wait, signal: never}]")
    send(stopped, "signal", name="stop")
    assert step_reason(stopped, "b").text == "cancelled by a message that the definition hears (`on`)"

    raced = Driver(
        """
        steps:
          - {ref: a, type: task, task: work, next: c}
          - {ref: b, type: wait, signal: never, next: c}
          - {ref: c, type: transform, join: any, cancel_rest: true, value: 1}
        """
    )
    raced.finish("a")
    assert step_reason(raced, "b").text == "cancelled by step `c`, a join with `cancel_rest`"

    ended = Driver("steps: [{ref: b, type: wait, signal: never}]")
    ended.request("cancel")
    text = step_reason(ended, "b").text
    assert text == "cancelled because the run ended as cancelled: cancel requested by somebody"
    assert run_reason(ended, "ended").text == "ended as cancelled with RunCancelled: cancel requested by somebody"


def test_a_step_skipped_by_its_timeout_says_so():
    driver = Driver("steps: [{ref: a, type: wait, signal: paid, timeout: 1s, on_timeout: skip}]")
    driver.advance(2)
    assert step_reason(driver, "a").text == "skipped when its time was up (`on_timeout: skip`)"


def test_lines_are_for_people():
    driver = Driver(
        """
        steps:
          - {ref: a, type: task, task: work, next: b}
          - {ref: b, type: task, task: other, run_if: trigger.go}
        """,
        {"go": True},
    )
    driver.now_us += 65 * SECOND_US
    assert lines(explained(driver)) == [
        "run run-1 of subject is running",
        "  a: attempt 1 of task `work` is in flight (since 1970-01-01T00:00:01Z, for 1m5s)",
        "  b: waits until its sources have settled and one leads here (`join: all`): 0 of 1 have settled, 0 led here",
        "    a: is running",
        "    its guard `trigger.go` holds with the values of now",
    ]


def test_large_values_are_cut():
    driver = Driver(
        "steps: [{ref: a, type: task, task: work, next: b}, {ref: b, type: task, task: work, run_if: "
        "trigger.text == 'x'}]",
        {"text": "y" * 2_000},
    )
    guard = step_reason(driver, "b").children[1]
    (value,) = msgspec.to_builtins(guard.details["values"]).values()
    assert value.endswith("… (2002 bytes)")
    assert len(value) < 600
