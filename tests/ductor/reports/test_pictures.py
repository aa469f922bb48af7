"""Pictures are well-formed, hold everything within their frame, say what they leave out, and draw numbers to scale."""

import struct
import sys
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from ductor.definitions.compile import compile_text
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ErrorInfo,
    NodeParked,
    NodeSettled,
    RunStarted,
)
from ductor.projections.errors import InvalidReportError
from ductor.projections.reports import FlowCount, StepFailures, StepStatistics, ThroughputPeriod
from ductor.reports import (
    EmptyPictureError,
    MissingExtraError,
    MissingFontError,
    durations_svg,
    failures_svg,
    funnel_svg,
    png,
    png_of,
    throughput_svg,
    timeline_of,
    timeline_svg,
)
from ductor.reports.drawing import CHAR_WIDTH, MARGIN
from ductor.reports.durations_picture import MAX_PICTURE_STEPS
from ductor.reports.failures_picture import FAILED, MAX_PICTURE_CAUSES, TRIED
from ductor.reports.funnel_picture import funnel_graph
from ductor.reports.throughput_picture import CHART_HEIGHT, COLOURS, MAX_PICTURE_PERIODS

SECOND_US = 1_000_000
SVG = "{http://www.w3.org/2000/svg}"
FONT_SIZES = {"title": 19.0, "aside": 12.0, "label": 12.0, "strong": 12.5, "tick": 11.0}
LONG = "a name of a step that is so long that nobody would want to read all of it <&> in a picture"


def parsed(svg: str) -> ElementTree.Element:
    """The picture, once it is known that nothing of it lies outside and no two texts of a line touch."""
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    lines: dict[float, list[tuple[float, float, str]]] = {}
    for text in root.iter(f"{SVG}text"):
        first, *align = text.attrib["class"].split()
        length = len(text.text or "") * FONT_SIZES[first] * CHAR_WIDTH
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        left = x - length if "right" in align else x - length / 2 if "middle" in align else x
        assert left >= 0, text.text
        assert left + length <= width + MARGIN, text.text
        assert 0 < y < height, text.text
        lines.setdefault(y, []).append((left, left + length, text.text or ""))
    for found in lines.values():
        ordered = sorted(found)
        for before, after in pairwise(ordered):
            assert before[1] <= after[0], (before, after)
    for bar in bars(root):
        assert bar["x"] >= 0
        assert bar["width"] >= 0
        assert bar["x"] + bar["width"] <= width
        assert bar["y"] + bar["height"] <= height
    return root


def bars(root: ElementTree.Element, fill: str | None = None) -> list[dict[str, float]]:
    return [
        {name: float(bar.attrib[name]) for name in ("x", "y", "width", "height")}
        for bar in root.iter(f"{SVG}rect")
        if "x" in bar.attrib and fill in (None, bar.attrib["fill"]) and float(bar.attrib["width"]) != 11
    ]


def texts(root: ElementTree.Element) -> str:
    return "\n".join(text.text or "" for text in root.iter(f"{SVG}text"))


def step(name: str, median_ms: float, times: int = 10) -> StepStatistics:
    return StepStatistics(
        definition="order",
        step=name,
        settled=times,
        succeeded=times,
        failed=0,
        skipped=0,
        cancelled=0,
        attempts=times,
        attempts_failed=0,
        attempt_ms=1,
        duration_ms_p50=median_ms,
        duration_ms_p95=median_ms * 2,
        duration_ms_p99=median_ms * 3,
        duration_ms_max=median_ms * 4,
    )


def failure(failed: int, tried: int, error_type: str = "Declined") -> StepFailures:
    return StepFailures(
        definition="order",
        step=LONG,
        error_type=error_type,
        failed=failed,
        attempts_failed=tried,
        last_run_id="r",
        last_at_us=1,
    )


def period(number: int, completed: int, failed: int) -> ThroughputPeriod:
    return ThroughputPeriod(
        at_us=number * 3_600 * SECOND_US,
        started=completed + failed,
        ended=completed + failed,
        completed=completed,
        failed=failed,
        cancelled=0,
        terminated=0,
        continued=0,
    )


@pytest.mark.parametrize("median_ms", [0.0, 0.02, 3.0, 40_000.0, 9e8])
def test_durations_of_one_step_of_any_length(median_ms: float):
    root = parsed(durations_svg([step(LONG, median_ms)]))
    assert "10 times" in texts(root)


def test_durations_of_very_many_steps_are_bounded():
    steps = [step(f"step_{number}", 1.0 + number, times=number + 1) for number in range(MAX_PICTURE_STEPS + 40)]
    told = texts(parsed(durations_svg(steps)))
    assert "40 steps that were carried out less are not shown" in told
    assert "step_39" not in told.split("\n")
    assert "step_40" in told.split("\n")


def test_durations_lie_where_their_scale_has_them():
    """On a scale of powers of ten, equal factors are equal lengths."""
    root = parsed(durations_svg([step("a", 10.0), step("b", 100.0), step("c", 1_000.0)]))
    a, b, c = (float(dot.attrib["cx"]) for dot in root.iter(f"{SVG}circle"))
    assert b - a == pytest.approx(c - b, abs=0.2)
    assert b > a


def test_failures_are_drawn_to_scale():
    root = parsed(failures_svg([failure(30, 60), failure(10, 0, "<Timeout>"), failure(0, 20, "")]))
    lengths = [bar["width"] for bar in bars(root, FAILED)]
    assert lengths == pytest.approx([lengths[0], lengths[0] / 3, 0], abs=0.2)
    assert [bar["width"] for bar in bars(root, TRIED)] == pytest.approx(
        [2 * lengths[0], 0, lengths[0] * 2 / 3], abs=0.2
    )
    assert "<Timeout>" in texts(root)
    assert "40 steps failed for good, 80 attempts failed in all" in texts(root)


def test_very_many_causes_are_bounded():
    causes = [failure(100 - number, 5, f"E{number}") for number in range(MAX_PICTURE_CAUSES + 3)]
    assert "3 rarer causes are not shown" in texts(parsed(failures_svg(causes)))


@pytest.mark.parametrize("count", [1, 2, 7, 96, MAX_PICTURE_PERIODS])
def test_throughput_is_drawn_to_scale(count: int):
    periods = [period(number, 30 + number % 3, 10) for number in range(count)]
    root = parsed(throughput_svg(periods, 3_600_000))
    completed = [bar for bar in bars(root, COLOURS["completed"]) if bar["height"] > 2]
    failed = [bar for bar in bars(root, COLOURS["failed"]) if bar["height"] > 2]
    assert len(completed) == len(failed) == count
    scale = completed[0]["height"] / 30
    assert scale * (40 if count == 1 else 50) == pytest.approx(CHART_HEIGHT, abs=0.5)
    assert all(bar["height"] == pytest.approx(scale * (30 + place % 3), abs=0.2) for place, bar in enumerate(completed))
    assert all(
        red["y"] + red["height"] == pytest.approx(green["y"], abs=0.2)
        for red, green in zip(failed, completed, strict=True)
    )


def test_periods_without_runs_are_gaps():
    root = parsed(throughput_svg([period(0, 5, 0), period(1, 0, 0), period(2, 5, 0)], 3_600_000))
    assert len([bar for bar in bars(root, COLOURS["completed"]) if bar["height"] > 2]) == 2


def test_more_periods_than_can_be_seen_are_refused():
    with pytest.raises(InvalidReportError, match="take longer ones"):
        throughput_svg([period(number, 1, 0) for number in range(MAX_PICTURE_PERIODS + 1)], 3_600_000)


def test_there_must_be_something_to_draw():
    for draw in (
        lambda: durations_svg([]),
        lambda: failures_svg([]),
        lambda: throughput_svg([period(0, 0, 0)], 3_600_000),
        lambda: throughput_svg([], 3_600_000),
    ):
        with pytest.raises(EmptyPictureError):
            draw()


def test_a_timeline_is_drawn_to_scale():
    started = RunStarted(tenant="t", definition="order", manifest_hash="h", entrypoints=())
    error = ErrorInfo(type="E", message="")
    failed = AttemptFinished(node=LONG, generation=1, outcome="failed", error=error, started_at_us=1, finished_at_us=0)
    rows: list[tuple[int, list[AnyEvent]]] = [
        (1, [started, AttemptDispatched(node=LONG, generation=1, task="t")]),
        (10 * SECOND_US, [failed, NodeParked(node=LONG, waiting="retry")]),
        (30 * SECOND_US, [NodeSettled(node=LONG, status="failed", outcome="error")]),
        (40 * SECOND_US, [NodeSettled(node="b", status="succeeded", outcome="success")]),
    ]
    root = parsed(timeline_svg(timeline_of("r", "failed", rows)))
    attempt, retry = bars(root)
    assert attempt["x"] + attempt["width"] == pytest.approx(retry["x"], abs=0.2)
    assert retry["width"] == pytest.approx(2 * attempt["width"], abs=0.5)
    assert "…" in texts(root)


ORDER = """\
ductor: 1
name: order
steps:
  - {ref: reserve, type: task, task: reserve, next: {choice: [{when: output.total > 100, to: approve}, {to: ship}]}}
  - {ref: approve, type: approval, approvers: [ann], timeout: 3d,
     next: {approved: ship, rejected: refuse, timeout: refuse}}
  - {ref: refuse, type: transform, value: 1}
  - {ref: ship, type: task, task: ship, join: any}
"""


def counts(*given: tuple[str, str, str, int]) -> list[FlowCount]:
    return [FlowCount("h", measure, name, target, count) for measure, name, target, count in given]


def test_a_funnel_has_counts_on_steps_and_edges():
    (compiled,) = compile_text(ORDER, file="order.yaml")
    found = counts(
        ("started", "", "", 1_200),
        ("entered", "reserve", "", 1_200),
        ("settled", "reserve", "succeeded", 1_150),
        ("settled", "reserve", "failed", 50),
        ("taken", "reserve", "approve", 150),
        ("taken", "approve", "refuse", 7),
        ("ended", "reserve", "failed", 50),
        ("ended", "ship", "completed", 900),
    )
    graph = funnel_graph(compiled.manifest, found)
    assert graph.version.endswith("1,200 began: 900 completed, 50 failed")
    assert graph.nodes[0].notes == ("begun 1,200 times", "1,150 succeeded · 50 failed")
    labels = {(edge.source, edge.target): (edge.label, edge.taken) for edge in graph.edges}
    assert labels == {
        ("reserve", "approve"): ("150 · output.total > 100", True),
        ("reserve", "ship"): ("0 · otherwise", False),
        ("approve", "ship"): ("0 · approved", False),
        ("approve", "refuse"): ("7 · rejected or timeout", True),
    }
    svg = funnel_svg(compiled.manifest, found)
    ElementTree.fromstring(svg)
    assert "7 · rejected or timeout" in svg
    with pytest.raises(EmptyPictureError):
        funnel_svg(compiled.manifest, counts(("entered", "reserve", "", 1)))


def test_png_is_drawn_at_twice_the_size():
    svg = failures_svg([failure(3, 4)])
    root = ElementTree.fromstring(svg)
    picture = png_of(svg)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width, height) == (2 * int(root.attrib["width"]), 2 * int(root.attrib["height"]))


def test_a_png_has_its_texts():
    """Without a font the texts would be left out in silence."""
    svg = failures_svg([failure(3, 4)])
    assert png_of(svg) != png_of(svg.replace("Declined", "Refused!"))


def test_a_very_large_png_is_drawn_on_a_smaller_scale(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(png, "PIXELS_MAX", 300)
    width, height = struct.unpack(">II", png_of(failures_svg([failure(3, 4)]))[16:24])
    assert max(width, height) <= 300


def test_without_the_extra_png_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingExtraError, match=r"ductor-engine\[reports\]"):
        png_of("<svg/>")


def test_without_a_font_there_is_no_png(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(png, "FAMILIES", ("No Such Font",))
    png._sans_serif.cache_clear()
    try:
        with pytest.raises(MissingFontError, match="install one"):
            png_of("<svg/>")
    finally:
        png._sans_serif.cache_clear()
