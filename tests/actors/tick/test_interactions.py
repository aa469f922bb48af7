"""Interactions: what is asked, which reply fits."""

import pytest

from ductor.actors.steps.interaction import reply_problems
from ductor.definitions.values import JsonObject, JsonValue
from tests.actors.tick.driver import Driver

ASK = """
steps:
  - ref: q
    type: interaction
    ask: 'How many of ${trigger.sku}?'
    of: agent
    to: '${trigger.to}'
    data: '${trigger}'
    schema: {type: object, required: [count], properties: {count: {type: integer, minimum: 1}}}
    timeout: 1h
    next: {success: after, timeout: late}
  - {ref: after, type: transform, value: "${steps.q.output.count}"}
  - {ref: late, type: transform, value: 0}
"""
TRIGGER: JsonValue = {"sku": "s-1", "to": "buyer"}


def test_a_fitting_reply_is_the_output():
    run = Driver(ASK, TRIGGER)
    run.reply("q", {"count": 3, "note": "soon"})
    assert run.state.nodes["q"].output == {"count": 3, "note": "soon"}
    assert run.state.output == {"after": 3}


def test_a_reply_that_does_not_fit_changes_nothing_and_a_later_one_counts():
    run = Driver(ASK, TRIGGER)
    misfits: list[JsonValue] = [{"count": 0}, {}, "3", None]
    for misfit in misfits:
        run.reply("q", misfit)
    assert run.statuses()["q"] == "waiting"
    run.reply("q", {"count": 1})
    assert run.state.output == {"after": 1}


def test_a_reply_after_the_fitting_one_is_undelivered():
    run = Driver(ASK + "  - {ref: w, type: wait, signal: go}\n", TRIGGER)
    run.reply("q", {"count": 1})
    run.reply("q", {"count": 2})
    assert run.disposition("m-2") == "undelivered"
    assert run.state.nodes["q"].output == {"count": 1}


def test_without_a_schema_any_reply_fits():
    run = Driver("steps: [{ref: q, type: interaction, ask: 'Well?'}]")
    assert run.inbox["q"].people == ()
    run.reply("q", None)
    assert (run.state.status, run.state.output) == ("completed", {"q": None})


def test_the_partner_sees_what_is_asked():
    run = Driver(ASK, TRIGGER)
    item = run.inbox["q"]
    assert (item.kind, item.title, item.people) == ("interaction", "How many of s-1?", ("buyer",))
    data = run.state.nodes["q"].data
    assert isinstance(data, dict)
    assert (data["of"], data["to"], data["data"]) == ("agent", "buyer", TRIGGER)
    assert isinstance(data["schema"], dict)
    run.reply("q", {"count": 1})
    assert run.inbox == {}


def test_nobody_replies_in_time():
    run = Driver(ASK, TRIGGER)
    run.advance(3_600)
    assert run.state.output == {"late": 0}


def test_every_problem_of_a_reply_is_named_with_its_path():
    schema: JsonObject = {
        "type": "object",
        "required": ["a"],
        "properties": {"b": {"items": {"type": "integer"}}},
    }
    problems = reply_problems(schema, {"b": [1, "x", None]})
    assert len(problems) == 3
    assert any("b[1]" in problem for problem in problems)
    assert any("b[2]" in problem for problem in problems)
    assert any(problem.startswith("the reply: ") for problem in problems)
    assert reply_problems(schema, {"a": 1}) == []


def test_one_who_can_not_be_asked_fails_the_step():
    run = Driver(ASK, {"sku": 1, "to": "x" * 256})
    assert run.state.error is not None
    assert (run.state.status, run.state.error.type) == ("failed", "ValueRefused")


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_reply_of_any_size_comes_through(size: int):
    run = Driver("steps: [{ref: q, type: interaction, ask: 'Well?', schema: {type: string}}]")
    run.reply("q", "x" * size)
    assert run.state.nodes["q"].output == "x" * size


def test_one_who_is_no_text_is_asked_by_the_text_of_it():
    run = Driver(ASK, {"sku": 1, "to": 7})
    assert run.inbox["q"].people == ("7",)
