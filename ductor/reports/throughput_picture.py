"""Runs over time, as a picture: for each period how many began, and how many ended in which way."""

from collections.abc import Sequence
from typing import Final

from ductor.projections.errors import InvalidReportError
from ductor.projections.reports import ThroughputPeriod
from ductor.reports.drawing import ACCENT, GRID, HEADER_HEIGHT, LEGEND_HEIGHT, MARGIN, Drawing, status_colour
from ductor.reports.errors import EmptyPictureError
from ductor.reports.scales import count_ticks, duration_text, moment_text, moment_ticks

MAX_PICTURE_PERIODS: Final = 400
"""Periods of one picture; with more, bars would be thinner than can be seen."""
CHART_WIDTH: Final = 900.0
CHART_HEIGHT: Final = 300.0
AXIS_WIDTH: Final = 56.0
AXIS_HEIGHT: Final = 30.0
WIDEST_BAR: Final = 60.0

STATUSES: Final = ("completed", "continued", "cancelled", "terminated", "failed")
COLOURS: Final = {
    "completed": status_colour("completed"),
    "continued": "#8fb8de",
    "cancelled": status_colour("cancelled"),
    "terminated": "#7a1f1f",
    "failed": status_colour("failed"),
}


def throughput_svg(periods: Sequence[ThroughputPeriod], period_ms: int, *, title: str = "Runs over time") -> str:
    """Draw periods, which follow each other without a gap.

    Raises:
        EmptyPictureError: no run began or ended.
        InvalidReportError: there are more than `MAX_PICTURE_PERIODS`.
    """
    if len(periods) > MAX_PICTURE_PERIODS:
        reason = (
            f"{len(periods)} periods are too many for a picture, the limit is {MAX_PICTURE_PERIODS}: take longer ones"
        )
        raise InvalidReportError("throughput", reason)
    largest = max((max(period.started, period.ended) for period in periods), default=0)
    if not largest:
        raise EmptyPictureError("throughput", "no run began or ended in this time")
    drawing, left, top = Drawing(), MARGIN + AXIS_WIDTH, HEADER_HEIGHT + LEGEND_HEIGHT + 8
    bottom = top + CHART_HEIGHT
    since_us, until_us = periods[0].at_us, periods[-1].at_us + period_ms * 1_000
    every = duration_text(period_ms * 1_000)
    drawing.header(title, f"each bar is {every}; {moment_text(since_us)} to {moment_text(until_us)} UTC")
    present = [status for status in STATUSES if any(getattr(period, status) for period in periods)]
    drawing.legend(HEADER_HEIGHT + 18, [(ACCENT, "began"), *((COLOURS[status], status) for status in present)])
    end, ticks = count_ticks(largest)
    for tick in ticks:
        y = bottom - tick.place * CHART_HEIGHT
        drawing.line(left, y, left + CHART_WIDTH, y, GRID)
        drawing.text(left - 8, y + 4, "tick right", tick.text)
    for tick in moment_ticks(since_us, until_us):
        x = left + tick.place * CHART_WIDTH
        drawing.line(x, bottom, x, bottom + 5, GRID)
        drawing.text(x, bottom + 19, "tick middle", tick.text)
    slot = CHART_WIDTH / len(periods)
    for number, period in enumerate(periods):
        _bar(drawing, period, left + (number + 0.5) * slot, bottom, (min(slot * 0.8, WIDEST_BAR), end))
    return drawing.render(left + CHART_WIDTH + 2 * MARGIN, bottom + AXIS_HEIGHT + MARGIN, title)


def _bar(drawing: Drawing, period: ThroughputPeriod, x: float, bottom: float, scale: tuple[float, int]) -> None:
    width, end = scale
    y = bottom
    for status in STATUSES:
        count: int = getattr(period, status)
        if count:
            height = count / end * CHART_HEIGHT
            y -= height
            tooltip = f"{moment_text(period.at_us)}: {count} {status}"
            drawing.bar(x - width / 2, y, width, height, COLOURS[status], tooltip=tooltip, radius=0)
    began = bottom - period.started / end * CHART_HEIGHT
    drawing.bar(
        x - width / 2 - 1,
        began - 1,
        width + 2,
        2,
        ACCENT,
        tooltip=f"{moment_text(period.at_us)}: {period.started} began",
    )
