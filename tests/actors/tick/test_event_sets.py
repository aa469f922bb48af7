"""Event sets: policies, the event that ends the collecting, timeouts, aliases, duplicates."""

import pytest

from ductor.actors.tick.event_waits import CLOCK_TOLERANCE_US
from ductor.definitions.values import JsonValue
from tests.actors.tick.driver import Driver


def event_set(fields: str, events: str = "[{name: a}, {name: b}, {name: c}]") -> str:
    return f"""
    context: {{least: 5}}
    steps:
      - {{ref: s, type: event_set, events: {events}, {fields}, next: {{success: after, timeout: late}}}}
      - {{ref: after, type: transform, value: 1}}
      - {{ref: late, type: transform, value: 2}}
      - {{ref: t, type: task, task: t, effects: {{least: 100}}}}
    """


def names(run: Driver) -> list[JsonValue]:
    """What the output holds, by name; empty while the set is incomplete."""
    output = run.state.nodes["s"].output
    if output is None:
        return []
    assert isinstance(output, dict)
    events = output["events"]
    assert isinstance(events, list)
    return [event["name"] for event in events if isinstance(event, dict)]


UNTIL = ", until: {event: stop}"


@pytest.mark.parametrize("until", ["", UNTIL])
@pytest.mark.parametrize(
    ("policy", "sent", "needed"),
    [
        ("policy: all_required", "abc", 3),
        ("policy: all_required", "aabbc", 5),
        ("policy: any", "b", 1),
        ("policy: quorum, quorum: 2", "aac", 3),
        ("policy: count, count: 3", "aaa", 3),
        ("policy: count, count: 3", "abab", 3),
    ],
)
def test_a_policy_is_fulfilled_by_as_many_events_as_it_says(policy: str, sent: str, needed: int, until: str):
    run = Driver(event_set(policy + ", timeout: 1h" + until))
    for place, name in enumerate(sent[:needed], start=1):
        assert names(run) == []
        run.event(name)
        assert (run.statuses()["s"] == "succeeded") == (place == needed)
    assert names(run) == list(sent[:needed])
    assert run.statuses()["after"] == "succeeded"


@pytest.mark.parametrize(
    "policy",
    ["policy: all_required", "policy: quorum, quorum: 3", "policy: count, count: 4", "policy: until_timeout"],
)
def test_the_ending_event_completes_whatever_has_come(policy: str):
    run = Driver(event_set(policy + ", timeout: 1h" + UNTIL))
    run.event("a")
    run.event("stop")
    assert names(run) == ["a"]
    assert run.statuses()["after"] == "succeeded"


def test_the_ending_event_may_be_chosen_and_may_be_one_of_the_set():
    run = Driver(event_set("timeout: 1h, until: {event: b, match: event.payload == 'end'}"))
    run.event("b", "go on")
    assert run.statuses()["s"] == "waiting"
    run.event("b", "end")
    assert names(run) == ["b", "b"]


@pytest.mark.parametrize("policy", ["policy: all_required", "policy: any", "policy: count, count: 2"])
def test_a_timeout_takes_its_edge(policy: str):
    run = Driver(event_set(policy + ", timeout: 1h"))
    if "any" not in policy:
        run.event("a")
    assert run.advance(3_599).events == []
    run.advance(1)
    assert (run.state.nodes["s"].outcome, run.statuses()["late"]) == ("timeout", "succeeded")


@pytest.mark.parametrize("sent", ["", "abba"])
def test_until_timeout_collects_until_then_and_succeeds(sent: str):
    run = Driver(event_set("policy: until_timeout, timeout: 1h"))
    for name in sent:
        run.event(name)
    run.advance(3_600)
    assert run.state.nodes["s"].outcome == "success"
    assert names(run) == list(sent)


def test_aliases_name_the_events_and_are_what_a_quorum_counts():
    events = (
        "[{name: a, match: event.payload.n < 5, as: low}, {name: a, match: event.payload.n >= 5, as: high}, {name: b}]"
    )
    run = Driver(event_set("policy: quorum, quorum: 2, timeout: 1h", events))
    run.event("a", {"n": 1})
    run.event("a", {"n": 2})
    assert run.statuses()["s"] == "waiting"
    run.event("a", {"n": 9})
    assert names(run) == ["low", "low", "high"]


def test_one_event_may_be_two_of_the_set():
    events = "[{name: a, as: all}, {name: a, match: event.payload > 5, as: large}]"
    run = Driver(event_set("timeout: 1h", events))
    run.event("a", 7)
    assert names(run) == ["all", "large"]


def test_the_output_has_name_payload_id_and_time_in_order_of_arrival():
    run = Driver(event_set("policy: count, count: 2, timeout: 1h"))
    run.event("b", {"x": 1})
    run.advance(2)
    run.event("a")
    assert run.state.nodes["s"].output == {
        "events": [
            {"name": "b", "payload": {"x": 1}, "id": "e-1", "at": "1970-01-01T00:00:01Z"},
            {"name": "a", "payload": None, "id": "e-2", "at": "1970-01-01T00:00:03Z"},
        ]
    }


def test_what_an_event_is_was_decided_when_it_came():
    events = "[{name: a, match: event.payload >= context.least}, {name: b}]"
    run = Driver(event_set("timeout: 1h", events))
    run.event("a", 7)
    run.finish("t")  # from now on 7 would not do
    run.event("b")
    assert names(run) == ["a", "b"]


def test_events_that_do_not_match_or_are_too_old_pass_by_without_a_row():
    run = Driver(event_set("timeout: 1h", "[{name: a, match: event.payload > 5}, {name: b}]"))
    rows = len(run.rows)
    run.event("a", 1)
    run.event("b", at_us=run.now_us - CLOCK_TOLERANCE_US - 1)
    run.event("d")
    assert len(run.rows) == rows


def test_clocks_that_differ_a_little_lose_no_event():
    run = Driver(event_set("timeout: 1h", "[{name: a}, {name: b}]"))
    run.event("a", at_us=run.now_us - CLOCK_TOLERANCE_US)
    assert len(run.state.nodes["s"].messages) == 1


def test_a_match_that_fails_fails_the_set():
    run = Driver(event_set("timeout: 1h", "[{name: a, match: event.payload.n > 5}]"))
    run.event("a", {})
    assert run.state.nodes["s"].status == "failed"
    assert run.state.nodes["s"].error is not None
    assert run.state.nodes["s"].error.type == "ExpressionError"


def test_each_event_of_the_set_is_filed_and_all_go_together():
    run = Driver(event_set("timeout: 1h" + UNTIL))
    assert [(index, wait.name) for (_, index), wait in run.waits.items()] == [(0, "a"), (1, "b"), (2, "c"), (3, "stop")]
    assert {wait.since_us for wait in run.waits.values()} == {run.now_us - CLOCK_TOLERANCE_US}
    run.event("stop")
    assert run.waits == {}


def test_several_events_in_one_tick_are_taken_until_the_set_is_complete():
    run = Driver(event_set("policy: count, count: 2, timeout: 1h"))
    run.tick(messages=[run.message("event", "a", n, id=f"event:x-{n}") for n in range(3)])
    assert names(run) == ["a", "a"]
    assert [run.disposition(f"event:x-{n}") for n in range(3)] == ["consumed"] * 3


def test_a_set_whose_collection_is_too_large_fails_at_its_timeout_and_harms_nobody_else():
    run = Driver(event_set("policy: until_timeout, timeout: 1h"))
    for _ in range(9):
        run.event("a", "x" * 1_000_000)
    run.advance(3_600)
    error = run.state.nodes["s"].error
    assert error is not None
    assert (run.state.nodes["s"].status, error.type) == ("failed", "ValueRefused")
