"""When a handler may be called again for one attempt, as the simulation judges it."""

import pytest

from ductor.journal.records import HostRecord
from ductor.testing.clock import VirtualClock
from scripts.simulation.chance import Chance
from scripts.simulation.plan import FaultKind, Plan
from scripts.simulation.planning import plan_of
from scripts.simulation.repetitions import DISTURBING, Repetitions
from scripts.simulation.weather import Weather

TOKEN = "run/step/1"
PLAN = plan_of(0, restarts=True)
ALIVE_US = 3_000_000
"""How old a heartbeat may be where hosts beat once a second."""


def weather_of(plan: Plan) -> Weather:
    return Weather(plan, VirtualClock(), Chance(plan.seed, "weather"))


def repetitions(weather: Weather | None = None) -> Repetitions:
    """Of an attempt that has begun in one process."""
    made = Repetitions(PLAN.hosts, weather or weather_of(PLAN))
    assert made.begin(TOKEN, "host-1.1") is None
    return made


def host(name: str, heartbeat_at_us: int) -> HostRecord:
    return HostRecord(host_id=name, started_at_us=0, heartbeat_at_us=heartbeat_at_us)


def test_again_in_another_process_is_wrong() -> None:
    said = repetitions().begin(TOKEN, "host-2.1")
    assert said is not None
    assert "host-1.1" in said
    assert "host-2.1" in said


def test_again_in_the_same_process_is_wrong() -> None:
    assert repetitions().begin(TOKEN, "host-1.1") is not None


def test_another_attempt_is_another_matter() -> None:
    assert repetitions().begin("run/step/2", "host-2.1") is None


@pytest.mark.parametrize("kind", DISTURBING)
def test_after_a_death_a_cut_or_an_absence_of_the_database_it_is_right(kind: FaultKind) -> None:
    weather = weather_of(PLAN)
    made = repetitions(weather)
    weather.struck[kind] += 1
    assert made.begin(TOKEN, "host-2.1") is None


@pytest.mark.parametrize("kind", ["restart", "freeze", "slow_commits", "lost_wakeups", "late_rows", "lost_answers"])
def test_nothing_else_is_a_reason(kind: FaultKind) -> None:
    weather = weather_of(PLAN)
    made = repetitions(weather)
    weather.struck[kind] += 1
    assert made.begin(TOKEN, "host-2.1") is not None


def test_whose_handler_was_told_to_stop_may_be_called_again() -> None:
    made = repetitions()
    made.tell_to_stop(TOKEN)
    assert made.begin(TOKEN, "host-2.1") is None


@pytest.mark.parametrize(("took_ms", "is_right"), [(PLAN.hosts.drain_ms, True), (PLAN.hosts.drain_ms - 1, False)])
def test_a_host_that_took_too_long_to_stop_may_have_lost_it(took_ms: int, is_right: bool) -> None:
    made = repetitions()
    made.stopped("host-1.1", took_ms)
    assert (made.begin(TOKEN, "host-2.1") is None) is is_right


@pytest.mark.parametrize(("age_us", "is_right"), [(ALIVE_US + 1, True), (ALIVE_US, False)])
def test_a_host_that_lives_and_was_silent_for_too_long_is_taken_for_dead(age_us: int, is_right: bool) -> None:
    made = repetitions()
    made.heard([host("host-1.1", 0), host("host-2.1", age_us)], age_us)
    assert (made.begin(TOKEN, "host-2.1") is None) is is_right


def test_a_host_that_has_stopped_in_order_is_silent_for_good_reason() -> None:
    made = repetitions()
    made.stopped("host-3.1", 0)
    made.heard([host("host-1.1", ALIVE_US + 1), host("host-3.1", 0)], ALIVE_US + 1)
    assert made.begin(TOKEN, "host-2.1") is not None
