"""Pictures of workflows: everything is shown, nothing overlaps, and a run's colours are its journal's."""

from collections.abc import Sequence
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ductor.definitions.model import Definition, Edge
from ductor.definitions.policies import Retry
from ductor.definitions.steps import ConditionalStep, TaskStep
from ductor.graph import graph_of, marks_of, render_svg, render_text
from ductor.graph.layout import BENDS_MAX, GraphTooLargeError, Line, lay_out, pooled
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ErrorInfo,
    NodeParked,
    NodeSettled,
    RunEnded,
)


def task(ref: str, **fields) -> TaskStep:
    return TaskStep(ref=ref, task=f"do.{ref}", **fields)


ORDER = Definition(
    name="order",
    version="7",
    steps=(
        task("reserve", on_error="continue", retry=(Retry(max_attempts=5),)),
        task("charge", name="Charge <the> card & more"),
        task("backorder"),
        task("apologise"),
        ConditionalStep(ref="review", when="steps.charge.output.total > 100"),
        task("ship", join="any", cancel_rest=True),
    ),
    edges=(
        Edge(source="reserve", outcome="success", to="charge"),
        Edge(source="reserve", outcome="error", to="backorder", group=0, order=0, when='error.type == "OutOfStock"'),
        Edge(source="reserve", outcome="error", to="apologise", group=0, order=1),
        Edge(source="charge", outcome="success", to="review"),
        Edge(source="review", outcome="true", to="ship"),
        Edge(source="backorder", outcome="success", to="ship"),
    ),
    defer=(task("tell"),),
)


def order_run():
    rows: list[tuple[int, list[AnyEvent]]] = [
        (1_000_000, [AttemptDispatched(node="reserve", generation=1, task="do.reserve")]),
        (2_000_000, [NodeParked(node="reserve", waiting="retry", until_us=3_000_000)]),
        (3_000_000, [AttemptDispatched(node="reserve", generation=2, task="do.reserve", attempt=2)]),
        (
            4_500_000,
            [
                AttemptFinished(node="reserve", generation=2, outcome="succeeded"),
                NodeSettled(
                    node="reserve",
                    status="succeeded",
                    outcome="success",
                    taken=("charge",),
                    untaken=("apologise", "backorder"),
                ),
                NodeSettled(node="backorder", status="skipped", untaken=("ship",)),
                AttemptDispatched(node="charge", generation=1, task="do.charge"),
            ],
        ),
        (
            5_000_000,
            [
                AttemptFinished(
                    node="charge", generation=1, outcome="failed", error=ErrorInfo(type="Declined", message="no")
                ),
                NodeSettled(node="charge", status="failed", outcome="error"),
                RunEnded(status="failed", error=ErrorInfo(type="Declined")),
            ],
        ),
    ]
    return marks_of("run-1", "running", rows)


def test_marks_tell_what_the_journal_says():
    marks = order_run()
    assert marks.status == "failed"
    reserve, charge = marks.nodes["reserve"], marks.nodes["charge"]
    assert (reserve.status, reserve.attempts, reserve.duration_ms) == ("succeeded", 2, 3_500)
    assert reserve.taken == {"charge"}
    assert charge.error is not None
    assert (charge.status, charge.error.type) == ("failed", "Declined")
    assert "ship" not in marks.nodes


def test_a_parked_step_says_for_what_it_waits():
    marks = marks_of("run-1", "waiting", [(5, [NodeParked(node="a", waiting="timer", until_us=9)])])
    assert (marks.nodes["a"].status, marks.nodes["a"].waiting, marks.nodes["a"].until_us) == ("waiting", "timer", 9)


def test_undos_are_marked_at_their_steps_until_these_are_done_anew():
    begun = [NodeSettled(node="reserve", status="succeeded"), NodeSettled(node="charge", status="failed")]
    undoing = [AttemptDispatched(node="reserve.compensate", generation=1, task="undo")]
    undone = [NodeSettled(node="reserve.compensate", status="succeeded")]
    again = [AttemptDispatched(node="reserve", generation=2, task="do.reserve")]
    rows: list[tuple[int, Sequence[AnyEvent]]] = [(1, begun), (2, undoing), (3, undone), (4, again)]
    found = [marks_of("run-1", "running", rows[: count + 1]) for count in range(4)]
    assert [marks.nodes["reserve"].undo for marks in found] == ["", "running", "succeeded", ""]
    assert set(found[2].nodes) == {"reserve", "charge"}
    assert "[succeeded, undone]" in render_text(graph_of(ORDER, found[2]))
    assert "succeeded, being undone" in words_of(render_svg(graph_of(ORDER, found[1])))


def test_text_shows_every_step_and_edge():
    assert render_text(graph_of(ORDER)).splitlines() == [
        "order 7",
        "",
        "◉ reserve  task  do.reserve",
        "│   up to 5 attempts",
        "├── success ──────────────────────────▶ charge",
        '├── error: error.type == "OutOfStock" ▶ backorder',
        "└── error: otherwise ─────────────────▶ apologise",
        "",
        "● Charge <the> card & more  task  do.charge",
        "│   charge",
        "└── success ▶ review",
        "",
        "● backorder  task  do.backorder",
        "└── success ▶ ship",
        "",
        "● apologise  task  do.apologise",
        "",
        "● review  conditional  steps.charge.output.total > 100",
        "└── true ▶ ship",
        "",
        "● ship  task  do.ship  (joins 2)",
        "    join any, cancels the rest",
        "",
        "when the run ends:",
        "",
        "● tell  task  do.tell",
    ]


def test_text_of_a_run_shows_states_and_the_way_taken():
    lines = render_text(graph_of(ORDER, order_run())).splitlines()
    assert lines[0] == "order 7  run run-1 failed"
    assert "✔ reserve  task  do.reserve  [succeeded, 2 attempts, 3s500ms]" in lines
    assert '├── error: error.type == "OutOfStock" ▶ backorder   (not taken)' in lines
    assert "├── success ──────────────────────────▶ charge" in lines
    assert "✘ Charge <the> card & more  task  do.charge  [failed, 500ms, Declined]" in lines
    assert "○ ship  task  do.ship  (joins 2)" in lines


def words_of(svg: str) -> str:
    return " ".join(text for text in ElementTree.fromstring(svg).itertext() if text.strip())


def test_svg_is_well_formed_and_names_everything():
    svg = render_svg(graph_of(ORDER))
    words = words_of(svg)
    for expected in ("order", "reserve", "Charge <the> card & more", "when the run ends", "tell", "otherwise", "true"):
        assert expected in words
    edges = svg.count('class="edge')
    assert edges == len(ORDER.edges)


def test_svg_of_a_run_shows_states_and_the_way_not_taken():
    svg = render_svg(graph_of(ORDER, order_run()))
    words = words_of(svg)
    assert "run run-1" in words
    assert "succeeded x2 3s500ms" in words
    assert "Declined: no" in words
    assert svg.count("untaken") == 1 + 4  # the style, two choices of `reserve`, `backorder`'s and `charge`'s edges
    assert svg.count('class="edge taken"') == 1


def test_a_definition_without_edges_is_drawn():
    alone = Definition(name="alone", steps=(task("only"),))
    assert "only" in words_of(render_svg(graph_of(alone)))
    assert "◉ only" in render_text(graph_of(alone))


sizes = st.lists(st.tuples(st.floats(20, 300), st.floats(20, 90)), min_size=1, max_size=14)


@given(sizes, st.data())
@settings(max_examples=60, deadline=None)
def test_boxes_and_labels_never_overlap_and_lines_lead_down(boxes, data):
    pairs = [(a, b) for a, b in combinations(range(len(boxes)), 2)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=25)) if pairs else []
    labelled = [data.draw(st.booleans()) for _ in chosen]
    lines = [Line(a, b, 80.0 * has, 20.0 * has) for (a, b), has in zip(chosen, labelled, strict=True)]
    layout = lay_out(boxes, lines)
    for one, other in combinations(layout.boxes, 2):
        apart_x = abs(one.x - other.x) >= (one.width + other.width) / 2 - 1e-6
        apart_y = abs(one.y - other.y) >= (one.height + other.height) / 2 - 1e-6
        assert apart_x or apart_y
    for line in layout.lines:
        heights = [layout.boxes[number].y for number in line.boxes]
        assert heights == sorted(set(heights))
    assert all(box.x - box.width / 2 >= -1e-6 for box in layout.boxes)
    assert max(box.x + box.width / 2 for box in layout.boxes) <= layout.width + 1e-6


def test_the_order_of_a_layer_avoids_crossings_that_can_be_avoided():
    # 0 and 1 on top; 0 leads to 3 and 1 leads to 2, so that the given order would cross
    layout = lay_out([(50, 30)] * 4, [Line(0, 3, 0, 0), Line(1, 2, 0, 0)])
    assert (layout.boxes[0].x < layout.boxes[1].x) == (layout.boxes[3].x < layout.boxes[2].x)


def test_a_long_edge_is_straight_between_its_ends():
    layout = lay_out([(60, 30)] * 4, [Line(0, 1, 0, 0), Line(1, 2, 0, 0), Line(2, 3, 0, 0), Line(0, 3, 0, 0)])
    bends = layout.lines[3].boxes[1:-1]
    assert len({layout.boxes[bend].x for bend in bends}) == 1


def test_pooling_gives_the_nearest_ascending_numbers():
    assert pooled([1.0, 5.0, 3.0], [1.0, 1.0, 1.0]) == [1.0, 4.0, 4.0]
    assert pooled([3.0, 1.0], [3.0, 1.0]) == [2.5, 2.5]


def test_a_picture_with_too_many_bends_is_refused():
    count = 400
    lines = [Line(n, n + 1, 0, 0) for n in range(count - 1)] + [Line(n, count - 1, 0, 0) for n in range(count - 2)]
    with pytest.raises(GraphTooLargeError) as caught:
        lay_out([(50, 30)] * count, lines)
    assert caught.value.bends > caught.value.limit == BENDS_MAX


def test_a_thousand_steps_are_drawn():
    steps = tuple(task(f"s{number}") for number in range(1_000))
    edges = tuple(Edge(source=f"s{n}", outcome="success", to=f"s{n + 1}") for n in range(999))
    svg = render_svg(graph_of(Definition(name="long", steps=steps, edges=edges)))
    assert "s999" in svg
