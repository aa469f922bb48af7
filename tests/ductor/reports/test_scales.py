"""Axes: round marks that lie where their value is, few enough to be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ductor.reports.scales import (
    SECOND_US,
    count_ticks,
    duration_text,
    duration_ticks,
    moment_ticks,
    wide_duration_marks,
)

MAX_TICKS = 12


@given(st.integers(0, 10**15))
def test_counts_are_whole_and_the_largest_fits(largest: int):
    end, ticks = count_ticks(largest)
    assert end >= largest
    assert end >= 1
    assert 2 <= len(ticks) <= MAX_TICKS
    for tick in ticks:
        assert tick.place * end == pytest.approx(int(tick.text.replace(",", "")))


@given(st.integers(1, 5_000 * 86_400 * SECOND_US))
def test_marks_of_a_time_are_few_different_and_within(span_us: int):
    ticks = duration_ticks(span_us)
    assert 1 <= len(ticks) <= MAX_TICKS
    assert ticks[0].place == 0
    assert all(0 <= tick.place <= 1 for tick in ticks)
    assert len({tick.text for tick in ticks}) == len(ticks)


@given(st.integers(0, 2 * 10**15), st.integers(10 * SECOND_US, 5_000 * 86_400 * SECOND_US))
def test_marks_of_moments_are_few_and_within(since_us: int, span_us: int):
    ticks = moment_ticks(since_us, since_us + span_us)
    assert 1 <= len(ticks) <= MAX_TICKS
    assert all(0 <= tick.place <= 1 for tick in ticks)


@given(st.floats(0, 10**13), st.floats(0, 10**13))
def test_a_wide_scale_holds_both_ends(one: float, other: float):
    marks = wide_duration_marks(min(one, other), max(one, other))
    assert marks == sorted(set(marks))
    assert len(marks) >= 2
    assert marks[0] <= max(min(one, other), 100)
    assert marks[-1] >= max(one, other)


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0"),
        (100, "0.1ms"),
        (1_000, "1ms"),
        (40_250, "40.2ms"),
        (999_600, "1s"),
        (2_500_000, "2.5s"),
        (59_990_000, "1m"),
        (60 * SECOND_US, "1m"),
        (90 * SECOND_US, "1m30s"),
        (5_400 * SECOND_US, "1h30m"),
        (86_400 * SECOND_US, "1d"),
        (40 * 3_600 * SECOND_US, "1d16h"),
    ],
)
def test_durations_are_told_in_two_units_at_most(duration_us: int, text: str):
    assert duration_text(duration_us) == text
