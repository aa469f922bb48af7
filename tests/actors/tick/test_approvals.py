"""Approvals: who may vote, quorum, veto, timeouts, what people see."""

import pytest

from ductor.actors.tick.parking import MAX_TITLE_CHARACTERS
from ductor.definitions.values import JsonValue
from ductor.journal.store import MAX_INBOX_PEOPLE
from tests.actors.tick.driver import SECOND_US, Driver

EDGES = "next: {approved: yes_step, rejected: no_step, timeout: late}"
ENDS = """
  - {ref: yes_step, type: transform, value: 1}
  - {ref: no_step, type: transform, value: 2}
  - {ref: late, type: transform, value: 3}
"""


def approval(fields: str = "approvers: [ann, bob, cy]", edges: str = EDGES) -> str:
    timeout = "" if "timeout:" in fields else "timeout: 1h, "
    return f"steps:\n  - {{ref: a, type: approval, {timeout}{fields}{', ' + edges if edges else ''}}}{ENDS}"


def outcome(run: Driver) -> str:
    return run.state.nodes["a"].outcome


def votes(run: Driver, *given: tuple[str, str]) -> None:
    for person, decision in given:
        run.vote("a", {"+": "approved", "-": "rejected"}.get(decision, decision), person)


@pytest.mark.parametrize(
    ("fields", "given", "expected"),
    [
        ("approvers: [ann]", [("ann", "+")], "approved"),
        ("approvers: [ann]", [("ann", "-")], "rejected"),
        ("approvers: [ann, bob]", [("ann", "-")], ""),
        ("approvers: [ann, bob]", [("ann", "-"), ("bob", "+")], "approved"),
        ("approvers: [ann, bob]", [("ann", "-"), ("bob", "-")], "rejected"),
        ("approvers: [ann, bob, cy], quorum: 2", [("ann", "+")], ""),
        ("approvers: [ann, bob, cy], quorum: 2", [("ann", "+"), ("bob", "-"), ("cy", "+")], "approved"),
        ("approvers: [ann, bob, cy], quorum: 2", [("ann", "-"), ("bob", "+"), ("cy", "-")], "rejected"),
        ("approvers: [ann, bob, cy], quorum: 3", [("ann", "-")], "rejected"),
        ("approvers: [ann, bob, cy], veto: true", [("bob", "-")], "rejected"),
        ("approvers: [ann, bob, cy], veto: true, quorum: 2", [("ann", "+"), ("bob", "-")], "rejected"),
        # one vote a person; the first counts
        ("approvers: [ann, bob], quorum: 2", [("ann", "+"), ("ann", "+")], ""),
        ("approvers: [ann, bob], quorum: 2", [("ann", "+"), ("ann", "-"), ("bob", "+")], "approved"),
        # named twice is one person
        ("approvers: [ann, ann, bob], quorum: 2", [("ann", "-")], "rejected"),
        # others have no vote
        ("approvers: [ann, bob]", [("eve", "+")], ""),
        ("approvers: [ann, bob], veto: true", [("eve", "-")], ""),
        ("approvers: [ann, bob]", [("eve", "-"), ("eva", "-"), ("ann", "+")], "approved"),
        # what is no decision is no vote, and takes none away
        ("approvers: [ann], veto: true", [("ann", "perhaps")], ""),
        ("approvers: [ann]", [("ann", "perhaps"), ("ann", "+")], "approved"),
        # how many votes a group brings is not known
        ("approvers: ['group:board'], quorum: 1", [("ann", "-"), ("bob", "-"), ("cy", "-")], ""),
        ("approvers: ['group:board'], quorum: 1", [("ann", "-"), ("bob", "+")], "approved"),
        ("approvers: ['group:board'], veto: true", [("ann", "-")], "rejected"),
        ("approvers: ['group:board', ann], quorum: 2", [("ann", "-"), ("bob", "+"), ("cy", "+")], "approved"),
    ],
)
def test_votes_decide(fields: str, given: list[tuple[str, str]], expected: str):
    run = Driver(approval(fields))
    votes(run, *given)
    assert outcome(run) == expected
    assert run.statuses()["a"] == ("succeeded" if expected else "waiting")


def test_the_output_names_the_decision_who_made_it_and_all_votes():
    run = Driver(approval("approvers: [ann, bob, cy], quorum: 2"))
    run.vote("a", "rejected", "ann", "no money")
    run.vote("a", "approved", "bob")
    run.advance(1)
    run.vote("a", "approved", "cy", "fine")
    output: JsonValue = {
        "decision": "approved",
        "by": "cy",
        "comment": "fine",
        "votes": [
            {"by": "ann", "decision": "rejected", "comment": "no money", "at": "1970-01-01T00:00:01Z"},
            {"by": "bob", "decision": "approved", "comment": None, "at": "1970-01-01T00:00:01Z"},
            {"by": "cy", "decision": "approved", "comment": "fine", "at": "1970-01-01T00:00:02Z"},
        ],
    }
    assert run.state.nodes["a"].output == output
    assert (run.statuses()["yes_step"], run.statuses()["no_step"]) == ("succeeded", "skipped")


def test_a_rejection_takes_its_edge_and_is_no_failure():
    run = Driver(approval("approvers: [ann]"))
    votes(run, ("ann", "-"))
    assert (run.statuses()["yes_step"], run.statuses()["no_step"]) == ("skipped", "succeeded")
    assert run.state.status == "completed"


def test_a_vote_after_the_decision_is_undelivered():
    run = Driver(approval("approvers: [ann, bob]") + "  - {ref: w, type: wait, signal: go}\n")
    votes(run, ("ann", "+"), ("bob", "-"))
    assert (run.disposition("m-1"), run.disposition("m-2")) == ("consumed", "undelivered")
    assert outcome(run) == "approved"


def test_two_deciding_votes_of_one_tick():
    run = Driver(approval("approvers: [ann, bob], veto: true") + "  - {ref: w, type: wait, signal: go}\n")
    ballot = [
        run.message("vote", payload={"decision": decision}, node="a", by=by)
        for by, decision in (("ann", "approved"), ("bob", "rejected"))
    ]
    run.tick(messages=ballot)
    assert outcome(run) == "approved"
    assert run.disposition("m-2") == "undelivered"


@pytest.mark.parametrize(
    ("approvers", "said"),
    [
        ("ann", "must give a list of names"),
        ([], "must give a list of names"),
        ([1], "must give a list of names"),
        ([""], "between 1 and 255 bytes"),
        (["x" * 256], f"between 1 and 255 bytes, not '{'x' * 80}'"),
        ([f"p{n}" for n in range(1_001)], "1001 people, the limit is 1000"),
    ],
)
def test_approvers_that_nobody_could_be_fail_the_step(approvers: JsonValue, said: str):
    run = Driver(approval("approvers: '${trigger}'", edges=""), approvers)
    error = run.state.error
    assert error is not None
    assert run.state.status == "failed"
    assert said in error.message
    assert run.inbox == {}


def test_the_largest_crowd_can_be_asked():
    people: list[JsonValue] = [f"p{n}" for n in range(MAX_INBOX_PEOPLE)]
    assert len(Driver(approval("approvers: '${trigger}'"), people).inbox["a"].people) == MAX_INBOX_PEOPLE


def test_the_longest_name_is_one():
    run = Driver(approval("approvers: '${trigger}'"), ["x" * 255])
    votes(run, ("x" * 255, "+"))
    assert outcome(run) == "approved"


def test_a_quorum_that_computed_approvers_can_not_reach_is_rejected_at_the_first_rejection():
    run = Driver(approval("approvers: '${trigger}', quorum: 2"), ["ann", "bob"])
    votes(run, ("ann", "-"))
    assert outcome(run) == "rejected"


# --- timeouts ---------------------------------------------------------------------------------------------------------


def test_the_timeout_edge_comes_before_on_timeout():
    run = Driver(approval("approvers: [ann], timeout: 1h, on_timeout: approve"))
    run.advance(3_600)
    assert (outcome(run), run.statuses()["late"]) == ("timeout", "succeeded")


@pytest.mark.parametrize(
    ("policy", "status", "expected"),
    [("fail", "failed", "error"), ("skip", "skipped", ""), ("approve", "succeeded", "approved")],
)
def test_on_timeout(policy: str, status: str, expected: str):
    run = Driver(
        approval(f"approvers: [ann, bob], quorum: 2, timeout: 1h, on_timeout: {policy}", "next: {approved: late}")
    )
    votes(run, ("ann", "+"))
    assert run.advance(3_599).events == []
    run.advance(1)
    assert (run.statuses()["a"], outcome(run)) == (status, expected)


def test_an_approval_in_nobodys_name_keeps_the_votes_that_came():
    run = Driver(
        approval("approvers: [ann, bob], quorum: 2, timeout: 1h, on_timeout: approve", "next: {approved: late}")
    )
    votes(run, ("ann", "+"))
    run.advance(3_600)
    output = run.state.nodes["a"].output
    assert isinstance(output, dict)
    assert (output["decision"], output["by"], output["comment"]) == ("approved", None, "timeout")
    assert output["votes"] == [{"by": "ann", "decision": "approved", "comment": None, "at": "1970-01-01T00:00:01Z"}]
    assert run.statuses()["late"] == "succeeded"


def test_a_vote_stored_by_the_deadline_decides_against_the_timer():
    run = Driver(approval("approvers: [ann], timeout: 1h"))
    vote = run.message(
        "vote", payload={"decision": "rejected"}, node="a", by="ann", at_us=run.now_us + 3_600 * SECOND_US
    )
    run.now_us += 3_600 * SECOND_US
    run.tick(messages=[vote])
    assert outcome(run) == "rejected"


# --- the inbox --------------------------------------------------------------------------------------------------------


def test_people_see_what_is_asked_of_them_until_it_is_decided():
    run = Driver(
        approval("approvers: [ann, 'group:board'], title: 'Pay ${trigger.total}?', data: '${trigger}', timeout: 1h"),
        {"total": 7},
    )
    item = run.inbox["a"]
    assert (item.kind, item.title, item.people, item.status) == ("approval", "Pay 7?", ("ann", "group:board"), "open")
    assert (item.since_us, item.due_at_us) == (SECOND_US, 3_601 * SECOND_US)
    data = run.state.nodes["a"].data
    assert isinstance(data, dict)
    assert data["data"] == {"total": 7}
    votes(run, ("ann", "+"))
    assert run.inbox == {}


def test_a_long_title_is_cut_in_the_inbox_and_one_that_is_no_text_is_shown_as_json():
    long = Driver(approval("approvers: [ann], title: '${trigger}'"), "x" * 2_000)
    assert len(long.inbox["a"].title) == MAX_TITLE_CHARACTERS
    other = Driver(approval("approvers: [ann], title: '${trigger}'"), {"n": 1})
    assert other.inbox["a"].title == '{"n":1}'


def test_nobody_is_asked_by_a_step_that_is_cancelled_in_the_row_that_parks_it():
    run = Driver("""
    steps:
      - {ref: a, type: approval, approvers: [ann]}
      - {ref: b, type: transform, value: 1, cancels: [a]}
    """)
    assert (run.inbox, run.statuses()) == ({}, {"a": "cancelled", "b": "succeeded"})


@pytest.mark.parametrize("way", ["cancels", "cancel", "terminate", "timeout", "failure"])
def test_nobody_is_asked_any_more_once_the_step_has_gone(way: str):
    run = Driver(
        """
        steps:
          - {ref: t, type: task, task: t, cancels: [a], next: w}
          - {ref: a, type: approval, approvers: [ann], timeout: 1h, on_error: continue}
          - {ref: w, type: wait, signal: go}
        """
    )
    assert set(run.inbox) == {"a"}
    if way == "cancels":
        run.finish("t")
    elif way == "timeout":
        run.advance(3_600)
    elif way == "failure":
        run.fail("t")
    else:
        run.request("cancel" if way == "cancel" else "terminate")
    assert run.inbox == {}


def test_a_large_question_is_kept_beside_the_journal_and_votes_are_counted_all_the_same():
    run = Driver(approval("approvers: [ann], data: '${trigger}'"), {"text": "x" * 100_000})
    assert run.state.nodes["a"].data_ref is not None
    votes(run, ("ann", "+"))
    assert outcome(run) == "approved"
