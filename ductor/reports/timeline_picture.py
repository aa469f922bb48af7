"""A run in time as a picture: a row for each node, a bar for each of its spans.

However many nodes there are, the picture shows `MAX_PICTURE_NODES` at most: those that failed or are still under way,
then those that took longest, in the order in which they began. What is left out is said.
"""

from typing import Final

from ductor.reports.drawing import (
    FOOTER_HEIGHT,
    GRID,
    HEADER_HEIGHT,
    LEGEND_HEIGHT,
    MARGIN,
    MUTED,
    Drawing,
    cut,
    legend_width,
    status_colour,
    text_width,
)
from ductor.reports.errors import EmptyPictureError
from ductor.reports.scales import duration_text, duration_ticks, moment_text
from ductor.reports.timeline import Span, Timeline, TimelineNode

MAX_PICTURE_NODES: Final = 200
"""Nodes of one picture; the table of the same report has all."""
CHART_WIDTH: Final = 820.0
ROW_HEIGHT: Final = 22.0
BAR_HEIGHT: Final = 12.0
LENGTH_ROOM: Final = 64.0
THINNEST: Final = 2.0
"""A span that is too short to be seen is drawn this wide."""

SHORTEST_US: Final = 1_000
"""What the axis spans at least, also of a run that was over at once."""

QUEUED: Final = "#cbd5e1"
WAITING: Final = "#f2cf7e"
RETRY: Final = "#f0a5a5"
CHILD: Final = "#b79ee0"
PAUSE: Final = "#fdecc4"
MEANINGS: Final = (
    (status_colour("succeeded"), "succeeded"),
    (status_colour("failed"), "failed"),
    (status_colour("cancelled"), "cancelled"),
    (MUTED, "abandoned"),
    (RETRY, "until the next try"),
    (QUEUED, "waits for a worker, or is at work"),
    (WAITING, "waits"),
    (CHILD, "child run"),
)


def timeline_svg(timeline: Timeline, *, limit: int = MAX_PICTURE_NODES) -> str:
    """Draw a run.

    Args:
        limit: nodes at most, `MAX_PICTURE_NODES` at the most.

    Raises:
        EmptyPictureError: no node has begun.
    """
    nodes = shown_nodes(timeline, min(limit, MAX_PICTURE_NODES))
    if not nodes:
        raise EmptyPictureError("timeline", f"no step of run {timeline.run_id} has begun")
    drawing, legend = Drawing(), _legend(nodes, timeline)
    labels = max(text_width(cut(node.ref), 12) for node in nodes) + 26
    left, top = MARGIN + labels, HEADER_HEIGHT + LEGEND_HEIGHT + 18
    width = max(left + CHART_WIDTH + LENGTH_ROOM + MARGIN, legend_width(legend))
    chart_height = ROW_HEIGHT * len(nodes)
    span_us = _span_us(timeline)
    drawing.header(f"{timeline.definition}, {timeline.status}", _aside(timeline))
    drawing.legend(HEADER_HEIGHT + 18, legend)
    for began, ended in timeline.pauses:
        x = _x(left, began, timeline, span_us)
        end = _x(left, timeline.ended_at_us if ended is None else ended, timeline, span_us)
        drawing.bar(x, top, max(THINNEST, end - x), chart_height, PAUSE, tooltip="paused", radius=0)
    for tick in duration_ticks(span_us):
        x = left + tick.place * CHART_WIDTH
        drawing.line(x, top - 4, x, top + chart_height, GRID)
        drawing.text(x, top - 9, "tick middle", tick.text)
    for number, node in enumerate(nodes):
        _node(drawing, node, timeline, left, top + number * ROW_HEIGHT)
    bottom = top + chart_height
    drawing.line(left, bottom, left + CHART_WIDTH, bottom, GRID)
    note = _left_out(timeline, len(nodes))
    if note:
        drawing.text(MARGIN, bottom + FOOTER_HEIGHT - 4, "aside", note)
    height = bottom + MARGIN + (FOOTER_HEIGHT if note else 0)
    return drawing.render(width, height, f"timeline of run {timeline.run_id}")


def shown_nodes(timeline: Timeline, limit: int) -> list[TimelineNode]:
    """The nodes that tell most, in the order in which they began."""
    if len(timeline.nodes) <= limit:
        return timeline.nodes

    def weight(place: int) -> tuple[bool, bool, int, int]:
        node = timeline.nodes[place]
        length = sum(span.length_us(timeline.ended_at_us) for span in node.spans)
        return node.status == "failed", node.status in ("running", "waiting"), length, -place

    chosen = sorted(range(len(timeline.nodes)), key=weight, reverse=True)[:limit]
    return [timeline.nodes[place] for place in sorted(chosen)]


def _node(drawing: Drawing, node: TimelineNode, timeline: Timeline, left: float, top: float) -> None:
    middle = top + ROW_HEIGHT / 2
    drawing.dot(MARGIN + 5, middle, 4.5, status_colour(node.status), tooltip=node.status)
    drawing.text(MARGIN + 16, middle + 4, "label", cut(node.ref))
    span_us = _span_us(timeline)
    right = left
    for span in node.spans:
        x = _x(left, span.began_at_us, timeline, span_us)
        length = span.length_us(timeline.ended_at_us)
        end = max(x + THINNEST, x + length / span_us * CHART_WIDTH)
        told = ", ".join(part for part in (span.kind, span.detail, span.outcome, duration_text(length)) if part)
        if span.kind == "instant":
            drawing.dot(x, middle, 4, _colour(span), tooltip=f"{node.ref}: {span.outcome} at once")
        else:
            drawing.bar(x, middle - BAR_HEIGHT / 2, end - x, BAR_HEIGHT, _colour(span), tooltip=f"{node.ref}: {told}")
        right = max(right, end)
    if node.spans and node.spans[0].kind != "instant":
        last = node.spans[-1]
        ended_us = timeline.ended_at_us if last.ended_at_us is None else last.ended_at_us
        taken = duration_text(ended_us - node.spans[0].began_at_us)
        drawing.text(right + 6, middle + 4, "tick", taken)


def _colour(span: Span) -> str:
    if span.kind == "queued":
        return QUEUED
    if span.kind == "wait":
        return RETRY if span.detail == "retry" else WAITING
    if span.kind == "child":
        return CHILD if span.outcome in ("", "completed") else status_colour(span.outcome)
    return status_colour(span.outcome) if span.outcome in ("succeeded", "failed", "cancelled") else MUTED


def _span_us(timeline: Timeline) -> int:
    return max(SHORTEST_US, timeline.ended_at_us - timeline.started_at_us)


def _x(left: float, at_us: int, timeline: Timeline, span_us: int) -> float:
    return left + (at_us - timeline.started_at_us) / span_us * CHART_WIDTH


def _aside(timeline: Timeline) -> str:
    took = duration_text(timeline.ended_at_us - timeline.started_at_us)
    return f"run {timeline.run_id} · began {moment_text(timeline.started_at_us)} UTC · {took}"


def _left_out(timeline: Timeline, shown: int) -> str:
    hidden = len(timeline.nodes) - shown
    words = []
    if hidden:
        words.append(f"{hidden:,} of {len(timeline.nodes):,} steps are not shown, those that took least")
    if timeline.skipped:
        words.append("1 step was skipped" if timeline.skipped == 1 else f"{timeline.skipped:,} steps were skipped")
    return "; ".join(words)


def _legend(nodes: list[TimelineNode], timeline: Timeline) -> list[tuple[str, str]]:
    """What the colours that occur mean."""
    present = {_colour(span) for node in nodes for span in node.spans}
    pause = [(PAUSE, "the run is paused")] if timeline.pauses else []
    return [(colour, meaning) for colour, meaning in MEANINGS if colour in present] + pause
