"""What parked steps are said to wait for: every waiting type."""

import pytest

from ductor.journal.events import NodeParked, WaitingType
from ductor.journal.fold import fold_row
from tests.actors.explaining import pause, send, step_reason
from tests.actors.tick.driver import SECOND_US, Driver


def one_step(step: str, trigger: object = None) -> Driver:
    return Driver(f"steps: [{{ref: a, {step}}}]", trigger)  # type: ignore[arg-type]


def test_a_duration():
    reason = step_reason(one_step("type: wait, duration: 90s"), "a")
    assert (reason.kind, reason.text) == ("timer", "waits for 1m30s")
    assert (reason.since_us, reason.until_us) == (SECOND_US, 91 * SECOND_US)
    assert reason.children == ()


def test_a_timestamp():
    reason = step_reason(one_step("type: wait, until: '1970-01-01T01:00:00Z'"), "a")
    assert (reason.text, reason.until_us) == ("waits until a fixed time", 3_600 * SECOND_US)
    assert reason.details == {"form": "until", "until": 3_600 * SECOND_US}


def test_a_cron_expression():
    reason = step_reason(one_step("type: wait, cron: '0 3 * * *', timezone: Europe/Oslo"), "a")
    assert reason.text == "waits for the next time that fits `0 3 * * *` in Europe/Oslo"
    assert reason.details == {"form": "cron", "cron": "0 3 * * *", "timezone": "Europe/Oslo"}
    assert reason.until_us == 2 * 3_600 * SECOND_US  # Oslo was one hour ahead


def test_a_computed_time():
    reason = step_reason(one_step("type: wait, until_expr: trigger.pause", {"pause": "30s"}), "a")
    assert (reason.text, reason.until_us) == ("waits as `trigger.pause` said when it began", 31 * SECOND_US)


def test_a_time_that_comes_after_the_timeout():
    reason = step_reason(one_step("type: wait, duration: 1h, timeout: 10s, on_timeout: skip"), "a")
    assert (reason.text, reason.until_us) == ("waits for 1h, which comes after its timeout", 11 * SECOND_US)
    (timeout,) = reason.children
    assert (timeout.text, timeout.until_us) == ("its timeout is 10s: then it is skipped", 11 * SECOND_US)


def test_a_time_that_comes_before_the_timeout():
    reason = step_reason(one_step("type: wait, duration: 10s, timeout: 1h"), "a")
    assert (reason.text, reason.until_us, reason.children) == ("waits for 10s", 11 * SECOND_US, ())


def test_a_signal():
    driver = Driver(
        """
        steps:
          - {ref: a, type: wait, signal: paid, timeout: 10s, next: {timeout: b}}
          - {ref: b, type: task, task: work}
        """
    )
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.text) == ("signal", "waits for the signal `paid`")
    (timeout,) = reason.children
    assert (timeout.kind, timeout.until_us) == ("timeout", 11 * SECOND_US)
    assert timeout.text == "its timeout is 10s: then its `timeout` edge is taken"
    pause(driver)
    reason = step_reason(driver, "a")
    assert reason.until_us is None
    assert reason.children[0].text.endswith("; 10s are left when the run is resumed")


def test_an_event_with_its_match_and_the_value_it_must_carry():
    step = "type: wait, event: paid, lookback: 5s, match: 'event.payload.order == trigger.order && event.payload.ok'"
    reason = step_reason(one_step(step, {"order": "o-1"}), "a")
    assert reason.kind == "event"
    assert reason.details["lookback_ms"] == 5_000
    assert reason.details["match"] == "event.payload.order == trigger.order && event.payload.ok"
    assert reason.details["correlation"] == {"path": "payload.order", "value": "o-1"}
    assert reason.text.endswith('where `event.payload.order` must equal "o-1"')


def test_an_event_whose_value_can_not_be_told():
    step = "type: wait, event: paid, match: 'event.payload.order == context.order'"
    driver = Driver(
        f"""
        context: {{order: {{id: 1}}}}
        on: [{{signal: clear, effects: {{order: null}}}}]
        steps: [{{ref: a, {step.replace("context.order", "context.order.id")}}}]
        """
    )
    assert step_reason(driver, "a").details["correlation"] == {"path": "payload.order", "value": 1}
    send(driver, "signal", name="clear")
    correlation = step_reason(driver, "a").details["correlation"]
    assert isinstance(correlation, dict)
    assert correlation["value"] is None
    assert "context.order.id" in str(correlation["error"])


def test_an_event_without_a_match():
    reason = step_reason(one_step("type: wait, event: paid"), "a")
    assert (reason.text, reason.details) == ("waits for the event `paid`", {"event": "paid", "lookback_ms": 0})


@pytest.mark.parametrize(
    ("policy", "before", "after"),
    [
        ("all_required", "waits for all of its events; missing: paid, sent", "missing: sent"),
        ("any", "waits for any of paid, sent", None),
        ("quorum, quorum: 2", "waits for events of 2 names, 0 have come; missing: paid, sent", "1 have come"),
        ("count, count: 3", "waits for 3 events, 0 have come", "waits for 3 events, 1 have come"),
        ("until_timeout", "collects events until its timeout; 0 have come", "1 have come"),
    ],
)
def test_an_event_set(policy: str, before: str, after: str | None):
    events = "[{name: order.paid, as: paid, match: event.payload.ok}, {name: sent}]"
    driver = one_step(f"type: event_set, timeout: 10s, policy: {policy}, events: {events}, until: {{event: closed}}")
    reason = step_reason(driver, "a")
    assert reason.kind == "event_set"
    assert reason.text == before + "; the event `closed` ends it"
    assert reason.details["missing"] == ["paid", "sent"]
    assert reason.details["matches"] == {"0": "event.payload.ok"}
    assert reason.details["until"] == {"event": "closed", "match": None}
    goes_on = "then it goes on with what has arrived" in reason.children[0].text
    assert goes_on == (policy == "until_timeout")
    send(driver, "event", name="order.paid", payload={"ok": True})
    if after is not None:
        reason = step_reason(driver, "a")
        assert after in reason.text
        assert (reason.details["arrived"], reason.details["missing"]) == (["paid"], ["sent"])


def test_an_approval_names_who_voted_and_who_may_still():
    driver = one_step(
        "type: approval, approvers: [ann, ben, 'group:board'], quorum: 2, timeout: 1h, on_timeout: approve"
    )
    assert step_reason(driver, "a").text == "waits for 2 of 2 approvals; may vote: ann, ben, group:board"
    send(driver, "vote", node="a", by="ann", payload={"decision": "approved"})
    reason = step_reason(driver, "a")
    assert reason.kind == "approval"
    assert reason.text == "waits for 1 of 2 approvals; approved by ann; may vote: ben, group:board"
    send(driver, "vote", node="a", by="ben", payload={"decision": "rejected"})
    reason = step_reason(driver, "a")
    assert reason.details == {
        "quorum": 2,
        "veto": False,
        "approved_by": ["ann"],
        "rejected_by": ["ben"],
        "missing": ["group:board"],
    }
    assert reason.children[0].text == "its timeout is 1h: then it counts as approved"


def test_many_approvers_are_counted():
    names = ", ".join(f"p{number}" for number in range(25))
    text = step_reason(one_step(f"type: approval, approvers: [{names}]"), "a").text
    assert text.endswith("p18, p19 and 5 more")


def test_a_case_names_its_status_and_assignee():
    driver = one_step("type: human_loop, title: Check, awaiting_status: closed")
    assert step_reason(driver, "a").text == "waits until the case of nobody is `closed`; it is `open`"
    send(driver, "case", node="a", by="ann", payload={"status": "doing", "assignee": "ben"})
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.text) == ("case", "waits until the case of ben is `closed`; it is `doing`")
    assert reason.details["assignee"] == "ben"


def test_an_interaction_names_whom_it_asks_what():
    reason = step_reason(one_step("type: interaction, ask: 'How many?', to: ann, schema: {type: integer}"), "a")
    assert (reason.kind, reason.text) == ("interaction", "waits for a reply from ann to: How many?")
    assert reason.details == {"ask": "How many?", "of": "person", "to": "ann", "schema": {"type": "integer"}}
    anybody = step_reason(one_step("type: interaction, ask: 'How many?'"), "a")
    assert anybody.text == "waits for a reply to: How many?"


def test_a_retry_names_the_error_and_what_is_left():
    driver = one_step(
        "type: task, task: work, retry: [{max_attempts: 2, only: [Never]}, {max_attempts: 5, initial: 8s, jitter: 0}]"
    )
    driver.fail("a", type="Unreachable")
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.until_us) == ("retry", 9 * SECOND_US)
    assert reason.text == "attempt 1 of at most 5 failed (Unreachable: a failed); waits before attempt 2"
    assert reason.details["attempts_left"] == 4
    driver.now_us += 3 * SECOND_US
    pause(driver)
    assert step_reason(driver, "a").text.endswith("waits before attempt 2; 5s are left when the run is resumed")


def test_a_repeat_names_its_round_and_the_condition():
    driver = one_step("type: task, task: work, repeat: {until: output.done, every: 10s, max: 7}")
    driver.finish("a", {"done": False})
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.until_us) == ("repeat", 11 * SECOND_US)
    assert reason.text.startswith("`until` did not hold after 1 of at most 7 rounds")
    (condition,) = reason.children
    assert (condition.details["values"], condition.details["holds"]) == ({"output.done": False}, False)


def test_a_digest_names_its_window():
    step = "type: digest, key: '${trigger.to}', item: {n: 1}, window: {duration: 10m, count: 5}"
    reason = step_reason(one_step(step, {"to": "ann"}), "a")
    assert (reason.kind, reason.until_us) == ("digest", None)
    assert reason.text == 'waits for the window of "ann" to close: 10m after its first item, or with 5 items'
    assert reason.details == {"key": "ann", "item": {"n": 1}, "duration_ms": 600_000, "count": 5}


def test_a_fixed_time_that_a_pause_has_brought_before_the_timeout():
    driver = one_step("type: wait, until: '1970-01-01T00:00:20Z', timeout: 10s, on_timeout: skip")
    assert step_reason(driver, "a").text == "waits until a fixed time, which comes after its timeout"
    pause(driver)
    driver.now_us += 15 * SECOND_US
    driver.request("resume", "resume")
    reason = step_reason(driver, "a")
    assert (reason.text, reason.until_us, reason.children) == ("waits until a fixed time", 20 * SECOND_US, ())


@pytest.mark.parametrize("waiting", ["child"])
def test_what_others_hold(waiting: WaitingType):
    driver = one_step("type: task, task: work")
    parked = NodeParked(node="a", waiting=waiting, until_us=5 * SECOND_US)
    fold_row(driver.state, driver.state.version + 1, driver.now_us, b"", [parked])
    reason = step_reason(driver, "a")
    assert (reason.kind, reason.since_us, reason.until_us) == (waiting, SECOND_US, 5 * SECOND_US)
    assert reason.text.startswith("waits for ")
