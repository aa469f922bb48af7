"""Failures by cause, as a picture: for each step and type of error, what failed for good, and what in vain."""

from collections.abc import Sequence
from typing import Final

from ductor.projections.reports import StepFailures
from ductor.reports.drawing import (
    FOOTER_HEIGHT,
    GRID,
    HEADER_HEIGHT,
    LEGEND_HEIGHT,
    MARGIN,
    Drawing,
    cut,
    legend_width,
    status_colour,
    text_width,
)
from ductor.reports.errors import EmptyPictureError
from ductor.reports.scales import count_ticks

MAX_PICTURE_CAUSES: Final = 40
"""Causes of one picture: those with the most failures."""
CHART_WIDTH: Final = 560.0
ROW_HEIGHT: Final = 44.0
NUMBER_ROOM: Final = 70.0
FAILED: Final = status_colour("failed")
TRIED: Final = "#f0b4b4"
LEGEND: Final = ((FAILED, "steps that failed for good"), (TRIED, "attempts that failed, retried or not"))


def failures_svg(failures: Sequence[StepFailures], *, title: str = "Failures by cause") -> str:
    """Draw failures, in the order given.

    Raises:
        EmptyPictureError: nothing has failed.
    """
    if not failures:
        raise EmptyPictureError("failures", "nothing has failed in this time")
    shown = failures[:MAX_PICTURE_CAUSES]
    end, ticks = count_ticks(max(max(one.failed, one.attempts_failed) for one in shown))
    labels = max(max(text_width(_cause(one), 12.5), text_width(_place(one), 12)) for one in shown) + 20
    drawing, left, top = Drawing(), MARGIN + labels, HEADER_HEIGHT + LEGEND_HEIGHT + 18
    failed = sum(one.failed for one in failures)
    tried = sum(one.attempts_failed for one in failures)
    drawing.header(title, f"{_counted(failed, 'step')} failed for good, {_counted(tried, 'attempt')} failed in all")
    drawing.legend(HEADER_HEIGHT + 18, LEGEND)
    bottom = top + ROW_HEIGHT * len(shown)
    for tick in ticks:
        x = left + tick.place * CHART_WIDTH
        drawing.line(x, top - 4, x, bottom, GRID)
        drawing.text(x, top - 9, "tick middle", tick.text)
    for number, one in enumerate(shown):
        middle = top + (number + 0.5) * ROW_HEIGHT
        drawing.text(MARGIN, middle - 2, "strong", _cause(one))
        drawing.text(MARGIN, middle + 13, "aside", _place(one))
        for y, count, colour in ((middle - 13, one.failed, FAILED), (middle + 1, one.attempts_failed, TRIED)):
            width = count / end * CHART_WIDTH
            drawing.bar(left, y, width, 12, colour)
            drawing.text(left + width + 6, y + 10, "tick", f"{count:,}")
    hidden = len(failures) - len(shown)
    if hidden:
        drawing.text(MARGIN, bottom + FOOTER_HEIGHT - 4, "aside", f"{hidden} rarer causes are not shown")
    width = max(left + CHART_WIDTH + NUMBER_ROOM + MARGIN, legend_width(LEGEND))
    return drawing.render(width, bottom + MARGIN + (FOOTER_HEIGHT if hidden else 0), title)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _cause(one: StepFailures) -> str:
    return cut(one.error_type or "(no type)")


def _place(one: StepFailures) -> str:
    return cut(f"{one.definition} · {one.step}")
