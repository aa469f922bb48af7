"""How long steps take, as a picture: for each step its percentiles on a logarithmic scale."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from ductor.projections.reports import StepStatistics
from ductor.reports.drawing import (
    ACCENT,
    FOOTER_HEIGHT,
    GRID,
    HEADER_HEIGHT,
    LEGEND_HEIGHT,
    MARGIN,
    Drawing,
    cut,
    legend_width,
    text_width,
)
from ductor.reports.errors import EmptyPictureError
from ductor.reports.scales import duration_text, wide_duration_marks

MAX_PICTURE_STEPS: Final = 60
"""Steps of one picture: those that were carried out most often."""
CHART_WIDTH: Final = 620.0
ROW_HEIGHT: Final = 40.0
COUNT_ROOM: Final = 190.0
P95: Final = "#9dbdf7"
P99: Final = "#d3e2fc"
MAX: Final = "#b02a2a"
LEGEND: Final = ((ACCENT, "median"), (P95, "up to 95 %"), (P99, "up to 99 %"), (MAX, "longest"))


def durations_svg(steps: Sequence[StepStatistics], *, title: str = "Durations of steps") -> str:
    """Draw durations.

    Raises:
        EmptyPictureError: no step was carried out.
    """
    timed = [step for step in steps if step.duration_ms_max is not None]
    if not timed:
        raise EmptyPictureError("durations", "no step was carried out in this time")
    chosen = sorted(timed, key=lambda step: -_carried_out(step))[:MAX_PICTURE_STEPS]
    shown = [step for step in timed if step in chosen]
    marks = wide_duration_marks(
        min((step.duration_ms_p50 or 0.0) * 1_000 for step in shown),
        max((step.duration_ms_max or 0.0) * 1_000 for step in shown),
    )
    labels = max(max(text_width(cut(step.step), 12.5), text_width(cut(step.definition), 12)) for step in shown) + 20
    drawing, left, top = Drawing(), MARGIN + labels, HEADER_HEIGHT + LEGEND_HEIGHT + 18
    drawing.header(title, "from the first attempt or the beginning of a wait to the end, retries included")
    drawing.legend(HEADER_HEIGHT + 18, LEGEND)
    bottom = top + ROW_HEIGHT * len(shown)
    axis = _Axis(left, marks[0], marks[-1])
    for mark in marks:
        x = axis.x(mark / 1_000)
        drawing.line(x, top - 4, x, bottom, GRID)
        drawing.text(x, top - 9, "tick middle", duration_text(mark))
    for number, step in enumerate(shown):
        _step(drawing, step, axis, top + number * ROW_HEIGHT)
    hidden = len(timed) - len(shown)
    if hidden:
        drawing.text(
            MARGIN, bottom + FOOTER_HEIGHT - 4, "aside", f"{hidden} steps that were carried out less are not shown"
        )
    width = max(left + CHART_WIDTH + COUNT_ROOM + MARGIN, legend_width(LEGEND))
    return drawing.render(width, bottom + MARGIN + (FOOTER_HEIGHT if hidden else 0), title)


class _Axis(NamedTuple):
    """A logarithmic scale from one duration to another. What is shorter stands at its beginning."""

    left: float
    shortest_us: int
    longest_us: int

    def x(self, duration_ms: float | None) -> float:
        """Where a duration lies."""
        ratio = max((duration_ms or 0.0) * 1_000, self.shortest_us) / self.shortest_us
        return self.left + min(1.0, math.log(ratio) / math.log(self.longest_us / self.shortest_us)) * CHART_WIDTH


def _step(drawing: Drawing, step: StepStatistics, axis: _Axis, top: float) -> None:
    left, middle = axis.left, top + ROW_HEIGHT / 2
    told = ", ".join(
        f"{name} {duration_text((value or 0.0) * 1_000)}"
        for name, value in (
            ("median", step.duration_ms_p50),
            ("95 %", step.duration_ms_p95),
            ("99 %", step.duration_ms_p99),
            ("longest", step.duration_ms_max),
        )
    )
    drawing.text(MARGIN, middle - 2, "strong", cut(step.step))
    drawing.text(MARGIN, middle + 13, "aside", cut(step.definition))
    half, median = 7.0, axis.x(step.duration_ms_p50)
    drawing.line(left, middle, left + CHART_WIDTH, middle, GRID)
    drawing.bar(median, middle - half, axis.x(step.duration_ms_p99) - median, 2 * half, P99, tooltip=told)
    drawing.bar(median, middle - half, axis.x(step.duration_ms_p95) - median, 2 * half, P95, tooltip=told)
    longest = axis.x(step.duration_ms_max)
    drawing.line(longest, middle - half, longest, middle + half, MAX, width=2)
    drawing.dot(median, middle, 5, ACCENT, tooltip=told)
    middle_ms, longest_ms = step.duration_ms_p50 or 0.0, step.duration_ms_max or 0.0
    right = left + CHART_WIDTH + 14
    drawing.text(
        right, middle - 2, "label", f"{duration_text(middle_ms * 1_000)} – {duration_text(longest_ms * 1_000)}"
    )
    failed = f", {step.failed:,} failed" if step.failed else ""
    times = "once" if _carried_out(step) == 1 else f"{_carried_out(step):,} times"
    drawing.text(right, middle + 13, "aside", times + failed)


def _carried_out(step: StepStatistics) -> int:
    return step.succeeded + step.failed + step.cancelled
