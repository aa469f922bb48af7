"""Which moments of a schedule are made good, in any zone and after any absence."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.actors.schedules import MAX_CATCH_UP, MISSED_AFTER_US, moments_due
from ductor.actors.steps.wait import next_time_us
from ductor.definitions.model import Trigger

MINUTE_US = 60_000_000
DAY_US = 86_400_000_000
ZONES = ("UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo")
CRONS = ("* * * * *", "*/7 * * * *", "30 2 * * *", "0 */3 * * *", "15,45 1-3 * * *", "0 9 * * 1-5", "0 0 1 * *")


def at(text: str, zone: str = "UTC", fold: int = 0) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round(moment.timestamp()) * 1_000_000


def told(moments: list[int], zone: str) -> list[str]:
    zoned = (datetime.fromtimestamp(moment / 1e6, UTC).astimezone(ZoneInfo(zone)) for moment in moments)
    return [moment.strftime("%d %H:%M %z") for moment in zoned]


def schedule(cron: str, zone: str = "UTC", **fields: Any) -> Trigger:
    return Trigger(cron=cron, timezone=zone, **fields)


def all_moments(trigger: Trigger, first_us: int, now_us: int) -> tuple[list[int], int]:
    """One after another, as it is defined."""
    assert trigger.cron is not None
    moments, upcoming = [first_us], next_time_us(trigger.cron, trigger.timezone, first_us)
    while upcoming <= now_us:
        moments.append(upcoming)
        upcoming = next_time_us(trigger.cron, trigger.timezone, upcoming)
    return moments, upcoming


def test_on_time_there_is_one_moment_whatever_the_policy():
    first_us = at("2026-01-01T03:00")
    for catchup in ("all", "last", "none"):
        trigger = schedule("0 3 * * *", catchup=catchup)
        assert moments_due(trigger, first_us, first_us + 400_000) == ([first_us], first_us + DAY_US)


def test_after_an_absence_all_the_last_or_none_is_made_good():
    first_us = at("2026-01-01T03:00")
    now_us = first_us + 3 * DAY_US + MINUTE_US * 5
    missed = [first_us + n * DAY_US for n in range(4)]
    assert moments_due(schedule("0 3 * * *", catchup="all"), first_us, now_us) == (missed, missed[-1] + DAY_US)
    assert moments_due(schedule("0 3 * * *", catchup="last"), first_us, now_us) == (missed[-1:], missed[-1] + DAY_US)
    assert moments_due(schedule("0 3 * * *", catchup="none"), first_us, now_us) == ([], missed[-1] + DAY_US)


def test_none_starts_at_a_moment_that_has_just_come_and_not_at_one_that_was_missed():
    first_us = at("2026-01-01T03:00")
    trigger = schedule("0 3 * * *", catchup="none")
    assert moments_due(trigger, first_us, first_us + MISSED_AFTER_US)[0] == [first_us]
    assert moments_due(trigger, first_us, first_us + MISSED_AFTER_US + 1)[0] == []
    day_after_us = first_us + DAY_US
    assert moments_due(trigger, first_us, day_after_us + MINUTE_US)[0] == [day_after_us]


def test_the_newest_of_very_many_missed_moments_are_made_good_in_no_time(monkeypatch: pytest.MonkeyPatch):
    calls = 0

    def counted(cron: str, timezone: str, after_us: int) -> int:
        nonlocal calls
        calls += 1
        return next_time_us(cron, timezone, after_us)

    monkeypatch.setattr("ductor.actors.schedules.next_time_us", counted)
    first_us = at("2016-01-01T00:00")
    now_us = at("2026-01-01T00:00")
    moments, upcoming = moments_due(schedule("* * * * *", catchup="all"), first_us, now_us)
    assert moments == [now_us - n * MINUTE_US for n in reversed(range(MAX_CATCH_UP))]
    assert upcoming == now_us + MINUTE_US
    assert calls < 500


def test_the_hour_that_is_skipped_and_the_hour_that_comes_twice():
    oslo = "Europe/Oslo"
    daily = schedule("30 2 * * *", oslo, catchup="all")
    spring = moments_due(daily, at("2026-03-28T02:30", oslo), at("2026-03-30T12:00", oslo))[0]
    assert told(spring, oslo) == ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]
    autumn = moments_due(daily, at("2026-10-24T02:30", oslo), at("2026-10-26T12:00", oslo))[0]
    assert told(autumn, oslo) == ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"]


@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    start_us=st.integers(at("2026-01-01T00:00"), at("2026-12-01T00:00")),
    absence=st.timedeltas(timedelta(0), timedelta(days=4)),
    catchup=st.sampled_from(["all", "last", "none"]),
)
def test_looking_back_finds_what_going_forward_finds(
    cron: str, zone: str, start_us: int, absence: timedelta, catchup: str
):
    trigger = schedule(cron, zone, catchup=catchup)
    first_us = next_time_us(cron, zone, start_us)
    now_us = first_us + absence // timedelta(microseconds=1)
    moments, upcoming = all_moments(trigger, first_us, now_us)
    expected = {
        "all": moments[-MAX_CATCH_UP:],
        "last": moments[-1:],
        "none": [moment for moment in moments if now_us - moment <= MISSED_AFTER_US][-1:],
    }[catchup]
    assert moments_due(trigger, first_us, now_us) == (expected, upcoming)
