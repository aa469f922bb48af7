"""Cases: comments, assignment, status, history."""

import pytest

from ductor.definitions.values import JsonValue
from tests.actors.tick.driver import Driver

CASE = """
steps:
  - ref: c
    type: human_loop
    title: Look at ${trigger.id}
    data: "${trigger}"
    assignee: ${trigger.to}
    next: after
  - {ref: after, type: transform, value: "${steps.c.output.status}"}
"""
TRIGGER: JsonValue = {"id": "o-1", "to": "ann"}


def test_a_case_parks_until_it_has_the_awaited_status():
    run = Driver(CASE, TRIGGER)
    run.work_case("c", "ann", comment="looking")
    run.work_case("c", "ann", status="escalated", assignee="bob")
    assert run.statuses()["c"] == "waiting"
    run.advance(1)
    run.work_case("c", "bob", status="resolved", comment="done")
    assert (run.state.status, run.state.output) == ("completed", {"after": "resolved"})
    assert run.state.nodes["c"].output == {
        "title": "Look at o-1",
        "status": "resolved",
        "assignee": "bob",
        "comments": [
            {"by": "ann", "at": "1970-01-01T00:00:01Z", "comment": "looking"},
            {"by": "bob", "at": "1970-01-01T00:00:02Z", "comment": "done"},
        ],
        "history": [
            {"by": "ann", "at": "1970-01-01T00:00:01Z", "comment": "looking"},
            {"by": "ann", "at": "1970-01-01T00:00:01Z", "status": "escalated", "assignee": "bob"},
            {"by": "bob", "at": "1970-01-01T00:00:02Z", "status": "resolved", "comment": "done"},
        ],
    }


def test_another_awaited_status():
    run = Driver("steps: [{ref: c, type: human_loop, title: t, awaiting_status: closed}]")
    run.work_case("c", "ann", status="resolved")
    assert run.statuses() == {"c": "waiting"}
    run.work_case("c", "ann", status="closed")
    assert run.state.status == "completed"


def test_the_inbox_follows_status_and_assignee():
    run = Driver(CASE, TRIGGER)
    item = run.inbox["c"]
    assert (item.kind, item.title, item.people, item.status) == ("human_loop", "Look at o-1", ("ann",), "open")
    run.work_case("c", "ann", assignee="group:second_line", status="waiting for supplier")
    assert (run.inbox["c"].people, run.inbox["c"].status) == (("group:second_line",), "waiting for supplier")
    run.work_case("c", "bob", status="resolved")
    assert run.inbox == {}


def test_a_case_of_nobody_is_everybodys():
    run = Driver("steps: [{ref: c, type: human_loop, title: t}]")
    assert not run.inbox["c"].people
    run.work_case("c", "ann", assignee="ann")
    assert run.inbox["c"].people == ("ann",)


@pytest.mark.parametrize(
    "changes",
    [{}, {"status": 7}, {"assignee": ""}, {"assignee": "x" * 256}, {"assignee": ["ann"]}, {"comment": None}],
)
def test_what_a_case_can_not_be_changed_to_changes_nothing(changes: dict[str, JsonValue]):
    run = Driver(CASE, TRIGGER)
    before = run.inbox["c"]
    run.work_case("c", "eve", **changes)
    assert run.inbox["c"] == before
    run.work_case("c", "ann", status="resolved")
    output = run.state.nodes["c"].output
    assert isinstance(output, dict)
    assert output["history"] == [{"by": "ann", "at": "1970-01-01T00:00:01Z", "status": "resolved"}]


@pytest.mark.parametrize(("edge", "status"), [("", "failed"), ("timeout: late", "completed")])
def test_a_case_has_a_timeout(edge: str, status: str):
    run = Driver(f"""
    steps:
      - {{ref: c, type: human_loop, title: t, timeout: 1h, next: {{success: after{", " + edge if edge else ""}}}}}
      - {{ref: after, type: transform, value: 1}}
      - {{ref: late, type: transform, value: 2}}
    """)
    run.advance(3_600)
    assert run.state.status == status


def test_an_assignee_that_nobody_could_be_fails_the_step():
    run = Driver(CASE, {"id": 1, "to": ""})
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ValueRefused")


def test_an_assignee_that_is_no_text_is_the_text_of_it():
    run = Driver(CASE, {"id": 1, "to": 7})
    assert run.inbox["c"].people == ("7",)


@pytest.mark.parametrize("payload", ["resolved", None, ["resolved"]])
def test_what_is_no_change_at_all_changes_nothing(payload: JsonValue):
    run = Driver(CASE, TRIGGER)
    run.tick(messages=[run.message("case", payload=payload, node="c", by="eve")])
    run.work_case("c", "ann", status="resolved")
    output = run.state.nodes["c"].output
    assert isinstance(output, dict)
    assert output["history"] == [{"by": "ann", "at": "1970-01-01T00:00:01Z", "status": "resolved"}]
