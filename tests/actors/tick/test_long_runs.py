"""`continue_as_new_after`: a long run is warned, continued when nothing is under way, and ended at last."""

from typing import Any

import pytest

from ductor.actors.tick.continuing import SAFETY_NET_MULTIPLE
from ductor.journal.events import AttemptDispatched, ContinueRequested, HistoryWarned
from tests.actors.tick.driver import Driver
from tests.actors.tick.test_continuing import status, told

LONG = """
continue_as_new_after: 5
steps:
  - {ref: a, type: task, task: work, repeat: {until: output >= 9, max: 1000}, next: b}
  - {ref: b, type: task, task: work, next: c}
  - {ref: c, type: task, task: work}
"""


def test_a_long_run_continues_when_nothing_is_under_way():
    driver = Driver(LONG)
    for number in range(1, 9):
        driver.finish("a", number)
    assert [event.transitions for event in driver.events() if isinstance(event, HistoryWarned)] == [4]
    driver.finish("a", 9)
    assert status(driver) == "continued"
    (requested,) = [event for event in driver.events() if isinstance(event, ContinueRequested)]
    assert requested.request_id == "@continue_as_new_after"
    assert "b" not in {event.node for event in driver.events() if isinstance(event, AttemptDispatched)}


def test_a_long_run_continues_as_soon_as_it_is_as_long_as_that():
    driver = Driver("""
        continue_as_new_after: 3
        steps:
          - {ref: a, type: task, task: work, next: b}
          - {ref: b, type: task, task: work, next: c}
          - {ref: c, type: task, task: work}
    """)
    driver.finish("a")
    assert set(driver.in_flight) == {"b"}
    driver.finish("b")
    assert (status(driver), driver.state.version) == ("continued", 3)


def test_a_long_run_with_nothing_left_to_do_completes():
    driver = Driver(LONG.replace(", next: b", "").replace("  - {ref: b", "  - {ref: b, run_if: 'false'"))
    for number in range(1, 10):
        if "a" in driver.in_flight:
            driver.finish("a", number)
    while driver.in_flight:
        driver.finish(next(iter(driver.in_flight)))
    assert status(driver) == "completed"


def test_a_run_is_told_that_it_is_long_at_four_fifths_of_its_length():
    driver = Driver(LONG.replace("continue_as_new_after: 5", "continue_as_new_after: 101"))
    for number in range(90):
        driver.finish("a", -number)
    assert [event.transitions for event in driver.events() if isinstance(event, HistoryWarned)] == [81]


@pytest.mark.parametrize("kind", ["cancel", "terminate"])
def test_a_run_that_ends_is_not_told_that_it_is_long(kind: Any):
    driver = Driver(LONG)
    driver.finish("a", 1)
    driver.finish("a", 2)
    driver.request(kind)
    if kind == "cancel":
        driver.stopped("a")
    assert driver.state.is_terminal
    assert not [event for event in driver.events() if isinstance(event, HistoryWarned)]


def test_a_run_that_never_finds_a_moment_is_ended():
    driver = Driver(LONG)
    for number in range(5 * SAFETY_NET_MULTIPLE):
        if driver.state.is_terminal:
            break
        driver.finish("a", -number)
    assert status(driver) == "terminated"
    assert driver.state.error is not None
    assert driver.state.error.type == "HistoryTooLong"
    assert driver.state.version == 5 * SAFETY_NET_MULTIPLE


def test_without_the_field_no_run_is_warned_or_ended():
    driver = Driver(LONG.replace("continue_as_new_after: 5", ""))
    for number in range(10 * SAFETY_NET_MULTIPLE):
        driver.finish("a", -number)
    assert status(driver) == "running"
    assert not driver.state.is_warned


def test_explain_tells_of_a_run_that_is_long():
    driver = Driver(LONG)
    for number in range(4):
        driver.finish("a", -number)
    (long,) = [reason for reason in told(driver) if reason.kind == "long"]
    assert long.details == {"transitions": 5, "limit": 5}
