"""Scales of axes: round values to mark, and where they lie. Pure."""

import math
from datetime import datetime
from itertools import pairwise
from typing import Final

import msgspec

from ductor.reports.tables import EPOCH, moment

SECOND_US: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND_US
TIME_STEPS_US: Final = tuple(
    seconds * SECOND_US
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200)
) + tuple(days * DAY_US for days in (1, 2, 7, 14, 28, 91, 182, 364))
WIDE_MARKS_US: Final = (
    *(100, 1_000, 10_000, 100_000, SECOND_US, 10 * SECOND_US),
    *(60 * SECOND_US, 600 * SECOND_US, 3_600 * SECOND_US),
    *(DAY_US, 10 * DAY_US, 100 * DAY_US, 1_000 * DAY_US, 10_000 * DAY_US),
)
"""Round durations that are about as far from each other where each counts ten times the one before."""
DURATION_UNITS: Final = (
    ("d", DAY_US),
    ("h", 3_600 * SECOND_US),
    ("m", 60 * SECOND_US),
    ("s", SECOND_US),
    ("ms", 1_000),
)


class Tick(msgspec.Struct, frozen=True):
    """A marked value of an axis: where, from 0 to 1, and what stands there."""

    place: float
    text: str


def count_ticks(largest: int, wanted: int = 5) -> tuple[int, list[Tick]]:
    """The end of an axis of counts from 0, not below the largest, and its marks: whole numbers."""
    step = max(1, _round_up(max(largest, 1) / wanted))
    end = step * max(1, math.ceil(largest / step))
    return end, [Tick(value / end, f"{value:,}") for value in range(0, end + 1, step)]


def duration_ticks(span_us: int, wanted: int = 8) -> list[Tick]:
    """Marks of an axis of time since a beginning."""
    span = max(span_us, 1)
    exact = span / wanted
    step = next(
        (one for one in TIME_STEPS_US if one >= exact), TIME_STEPS_US[-1] * math.ceil(exact / TIME_STEPS_US[-1])
    )
    if exact < SECOND_US / 2:
        step = max(1, _round_up(exact))
    return [Tick(value / span, duration_text(value)) for value in range(0, span + 1, step)]


def moment_ticks(since_us: int, until_us: int, wanted: int = 8) -> list[Tick]:
    """Marks of an axis of moments (UTC)."""
    span = max(until_us - since_us, 1)
    exact = span / wanted
    step = next(
        (one for one in TIME_STEPS_US if one >= exact), TIME_STEPS_US[-1] * math.ceil(exact / TIME_STEPS_US[-1])
    )
    first = -(-since_us // step) * step
    return [Tick((at - since_us) / span, _moment_text(at, step)) for at in range(first, until_us + 1, step)]


def duration_text(duration_us: float) -> str:
    """A duration for people, in two units at most: `1h30m`, `2.5s`, `40ms`."""
    whole = round(duration_us)
    if whole < 1_000:
        return f"{whole / 1_000:.2g}ms" if whole else "0"
    if whole < SECOND_US:
        return f"{whole / 1_000:.3g}ms" if whole < 999_500 else "1s"
    if whole < 60 * SECOND_US:
        return f"{whole / SECOND_US:.3g}s" if whole < 59_950_000 else "1m"
    for (unit, size), (smaller, smaller_size) in pairwise(DURATION_UNITS):
        if whole >= size:
            count, rest = divmod(whole, size)
            more = rest // smaller_size
            return f"{count}{unit}{more}{smaller}" if more else f"{count}{unit}"
    return f"{whole / 1_000:.3g}ms"


def wide_duration_marks(shortest_us: float, longest_us: float) -> list[int]:
    """Durations to mark on a logarithmic axis that holds both of these: two at least."""
    marks = WIDE_MARKS_US
    first = max(place for place, mark in enumerate(marks) if mark <= max(shortest_us, marks[0]))
    last = min((place for place, mark in enumerate(marks) if mark >= longest_us), default=len(marks) - 1)
    first = min(first, len(marks) - 2)
    return list(marks[first : max(last, first + 1) + 1])


def moment_text(at_us: int) -> str:
    """A moment for people, in UTC."""
    return _datetime(at_us).strftime("%Y-%m-%d %H:%M:%S")


def _moment_text(at_us: int, step_us: int) -> str:
    at = _datetime(at_us)
    if step_us >= DAY_US:
        return at.strftime("%d %b %Y") if step_us > 28 * DAY_US else at.strftime("%d %b")
    if at_us % DAY_US == 0:
        return at.strftime("%d %b")
    return at.strftime("%H:%M:%S" if step_us < 60 * SECOND_US else "%H:%M")


def _datetime(at_us: int) -> datetime:
    return moment(at_us) or EPOCH


def _round_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …"""
    power = 10 ** math.floor(math.log10(value)) if value >= 1 else 1
    return int(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value))
