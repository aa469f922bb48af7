"""Durations and timestamps as text."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.durations import (
    MAX_DURATION_MS,
    TimeFormatError,
    format_duration_ms,
    format_duration_ns,
    format_timestamp_us,
    parse_duration_ms,
    parse_duration_ns,
    parse_timestamp_ns,
    parse_timestamp_us,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("0.25s", 250),
        ("0s", 0),
        ("0", 0),
        ("PT30S", 30_000),
        ("P7D", 604_800_000),
        ("P1W", 604_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT1H30M", 5_400_000),
        ("3650d", MAX_DURATION_MS),
    ],
)
def test_a_duration_is_read_in_milliseconds(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a duration"),
        ("30", "is not a duration"),
        ("s", "is not a duration"),
        ("5 m", "is not a duration"),
        ("1h 30m", "is not a duration"),
        ("\u0661s", "is not a duration"),
        ("1y", "is not a duration"),
        (".5s", "is not a duration"),
        ("P", "is not an ISO 8601 duration"),
        ("PT", "is not an ISO 8601 duration"),
        ("P1DT", "is not an ISO 8601 duration"),
        ("PT5D", "is not an ISO 8601 duration"),
        ("P1Y", "counts in years"),
        ("P2M", "counts in months"),
        ("-1s", "is negative"),
        ("-PT1S", "is negative"),
        ("1us", "not a whole number of milliseconds"),
        ("3650d1ms", "longer than ten years"),
        ("9" * 60 + "s", "longer than ten years"),
        ("1s" * 40, "is too long for a duration"),
    ],
)
def test_a_text_that_is_no_duration_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(TimeFormatError, match=re.escape(reason)) as caught:
        parse_duration_ms(text)
    assert caught.value.hint
    assert len(caught.value.text) <= 65


@given(st.integers(min_value=0, max_value=MAX_DURATION_MS))
def test_a_formatted_duration_is_read_back(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@pytest.mark.parametrize(("duration_ms", "text"), [(0, "0s"), (5_400_000, "1h30m"), (90_061_001, "1d1h1m1s1ms")])
def test_a_duration_is_formatted_with_its_largest_units(duration_ms: int, text: str) -> None:
    assert format_duration_ms(duration_ms) == text


def test_a_negative_duration_is_not_formatted() -> None:
    with pytest.raises(ValueError, match="negative"):
        format_duration_ms(-1)


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_seconds_with_decimals_are_read_back_to_the_nanosecond(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration_ns(duration_ns)) == duration_ns


@pytest.mark.parametrize(
    ("text", "at_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-30T08:00:00+01:00", 1_796_022_000_000_000),
        ("2026-11-30t07:00:00z", 1_796_022_000_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T00:00:00.0000019Z", 1),
        ("1969-12-31T23:59:59.999999Z", -1),
        ("1970-01-01T05:30:00+05:30", 0),
        ("1969-12-31T18:00:00-06:00", 0),
    ],
)
def test_a_timestamp_is_read_in_microseconds(text: str, at_us: int) -> None:
    assert parse_timestamp_us(text) == at_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-11-30T08:00:00", "is not a timestamp"),
        ("2026-11-30", "is not a timestamp"),
        ("2026-11-30 08:00:00Z", "is not a timestamp"),
        ("2026-02-29T00:00:00Z", "a date that does not exist"),
        ("0000-01-01T00:00:00Z", "a date that does not exist"),
        ("2026-11-30T24:00:00Z", "a time of day that does not exist"),
        ("2026-11-30T08:00:60Z", "a time of day that does not exist"),
        ("2026-11-30T08:00:00+24:00", "an offset of a day or more"),
        ("x" * 500, "is not a timestamp"),
    ],
)
def test_a_text_that_is_no_timestamp_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(TimeFormatError, match=reason):
        parse_timestamp_us(text)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),  # noqa: DTZ001  # the strategy adds the zone
        max_value=datetime(9998, 12, 31),  # noqa: DTZ001
        timezones=st.builds(timezone, st.integers(-1439, 1439).map(lambda minutes: timedelta(minutes=minutes))),
    )
)
def test_reading_agrees_with_the_standard_library(moment: datetime) -> None:
    expected = (moment - EPOCH) // timedelta(microseconds=1)
    assert parse_timestamp_us(moment.isoformat()) == expected
    assert datetime.fromisoformat(format_timestamp_us(expected)) == moment


def test_decimals_come_in_threes() -> None:
    assert format_timestamp_us(500_000) == "1970-01-01T00:00:00.500Z"
    assert format_timestamp_us(1) == "1970-01-01T00:00:00.000001Z"
    assert format_timestamp_us(0) == "1970-01-01T00:00:00Z"
    assert parse_timestamp_ns("1970-01-01T00:00:00.5Z") == 500_000_000
