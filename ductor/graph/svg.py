"""A workflow as SVG: one self-contained picture that needs no script, no font and no other file."""

from collections.abc import Iterator
from html import escape
from typing import Final

from ductor.definitions.durations import format_duration_ms
from ductor.graph.layout import Box, Layout, Line, lay_out, pooled
from ductor.graph.marks import UNDO_WORDS
from ductor.graph.model import GraphEdge, GraphNode, WorkflowGraph

MARGIN: Final = 28.0
HEADER_HEIGHT: Final = 54.0
NODE_WIDTH_MIN: Final = 148.0
TEXT_MAX: Final = 40
LABEL_MAX: Final = 34
NOTE_MAX: Final = 46
LABEL_HEIGHT: Final = 20.0
PORT_INSET: Final = 26.0
PORT_GAP: Final = 30.0
DEFER_COLUMNS: Final = 3
DEFER_GAP: Final = 24.0

TYPE_COLOURS: Final = {
    "task": "#2f6feb",
    "connector": "#2f6feb",
    "conditional": "#b7791f",
    "rule": "#b7791f",
    "transform": "#0f8a8a",
    "scatter": "#7c4dbe",
    "gather": "#7c4dbe",
    "subworkflow": "#7c4dbe",
}
PARKED_COLOUR: Final = "#c2557a"
EDGE_COLOURS: Final = {
    "success": "#64748b",
    "true": "#1f8f4e",
    "approved": "#1f8f4e",
    "false": "#b7791f",
    "rejected": "#c0392b",
    "error": "#c0392b",
    "timeout": "#c26a10",
    "done": "#6b5bd2",
}
STATUS_COLOURS: Final = {
    "pending": ("#ffffff", "#cbd5e1", "#94a3b8"),
    "running": ("#eaf2ff", "#2f6feb", "#1d4fbf"),
    "waiting": ("#fff7e6", "#e0a526", "#9a6b07"),
    "succeeded": ("#eaf8ef", "#2e9e5b", "#1c7a42"),
    "failed": ("#fdecec", "#d64545", "#b02a2a"),
    "skipped": ("#f8fafc", "#cbd5e1", "#94a3b8"),
    "cancelled": ("#f4f1f8", "#a394bd", "#75658f"),
    "completed": ("#eaf8ef", "#2e9e5b", "#1c7a42"),
    "terminated": ("#fdecec", "#d64545", "#b02a2a"),
    "paused": ("#fff7e6", "#e0a526", "#9a6b07"),
    "continued": ("#f4f1f8", "#a394bd", "#75658f"),
}
STYLE: Final = """
text { font-family: Inter, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", Arial, sans-serif; fill: #1e293b }
.title { font-size: 19px; font-weight: 600 }
.aside { font-size: 12px; fill: #64748b }
.type { font-size: 9.5px; font-weight: 600; letter-spacing: 0.8px }
.name { font-size: 14px; font-weight: 600 }
.detail { font-size: 11.5px; fill: #475569 }
.note { font-size: 10.5px; fill: #7b8794 }
.label { font-size: 11px; text-anchor: middle }
.chip { font-size: 10.5px; font-weight: 600; text-anchor: end }
.edge { fill: none; stroke-width: 1.6 }
.taken { stroke-width: 2.6 }
.untaken { opacity: 0.38; stroke-dasharray: 4 4 }
"""


def render_svg(graph: WorkflowGraph) -> str:
    """The picture as the text of an SVG file.

    Raises:
        GraphTooLargeError: it has too many long edges to be drawn.
    """
    flow = tuple(node for node in graph.nodes if not node.is_defer)
    defers = tuple(node for node in graph.nodes if node.is_defer)
    sizes = [_size(node) for node in flow]
    numbers = {node.ref: number for number, node in enumerate(flow)}
    edges = [edge for edge in graph.edges if edge.source in numbers and edge.target in numbers]
    plain = _unlabelled(edges)
    lines = [_line(edge, numbers, hide=edge in plain) for edge in edges]
    layout = lay_out(sizes, lines)
    defer_width, defer_height = _defer_area(defers)
    width = max(layout.width, defer_width, _header_width(graph)) + 2 * MARGIN
    left = (width - layout.width) / 2
    parts = [*_header(graph, width)]
    parts.append(f'<g transform="translate({left:.1f} {HEADER_HEIGHT + MARGIN:.1f})">')
    ports = _ports(layout)
    for number, edge in enumerate(edges):
        parts.extend(_edge(layout, edge, number, ports, hide_label=edge in plain))
    for node, box in zip(flow, layout.boxes, strict=False):
        parts.extend(_node(node, box))
    parts.append("</g>")
    top = HEADER_HEIGHT + MARGIN + layout.height
    parts.extend(_defers(defers, width, top))
    height = top + defer_height + MARGIN
    title = escape(f"{graph.name} {graph.version}".strip())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img"><title>{title}</title><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def _unlabelled(edges: list[GraphEdge]) -> set[GraphEdge]:
    """A plain `success` edge says nothing where success is the only outcome with edges."""
    outcomes: dict[str, set[str]] = {}
    for edge in edges:
        outcomes.setdefault(edge.source, set()).add(edge.label)
    return {edge for edge in edges if outcomes[edge.source] == {"success"}}


def _line(edge: GraphEdge, numbers: dict[str, int], *, hide: bool) -> Line:
    width = 0.0 if hide else _text_width(_cut(edge.label, LABEL_MAX), 11) + 14
    return Line(numbers[edge.source], numbers[edge.target], width, 0.0 if hide else LABEL_HEIGHT)


def _size(node: GraphNode) -> tuple[float, float]:
    chip = _text_width(_chip_text(node), 12) + 26 if node.mark else 0.0
    widths = (
        NODE_WIDTH_MIN,
        _text_width(node.type_name.upper(), 11.5) + chip + 30,
        _text_width(_cut(node.title, TEXT_MAX), 14.5) + 30,
        _text_width(_cut(node.detail, TEXT_MAX), 11.5) + 30,
        *(_text_width(_cut(note, NOTE_MAX), 10.5) + 30 for note in node.notes),
    )
    return max(widths), 46.0 + (15.0 if node.detail else 0.0) + 14.0 * len(node.notes)


def _node(node: GraphNode, box: Box) -> Iterator[str]:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    status = node.mark.status if node.mark else None
    fill, stroke, _ = STATUS_COLOURS[status] if status else ("#ffffff", "#d5dce6", "")
    accent = _type_colour(node.type_name) if status in (None, "pending") else stroke
    dash = ' stroke-dasharray="5 4"' if status in ("skipped", "cancelled") else ""
    faded = ' opacity="0.72"' if status in ("pending", "skipped") else ""
    yield f'<g class="node"{faded}><title>{escape(_tooltip(node))}</title>'
    yield _rect(left + 1, top + 2, box.width, box.height, "#0f172a", opacity=0.07)
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="9" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.3"{dash}/>'
    )
    yield (
        f'<path d="M{left + 5:.1f} {top + 9:.1f}V{top + box.height - 9:.1f}" stroke="{accent}" stroke-width="3.5" '
        f'stroke-linecap="round"/>'
    )
    yield _text(left + 16, top + 17, "type", node.type_name.upper(), colour=accent)
    if node.mark:
        yield _chip(node, left + box.width - 12, top + 17)
    y = top + 35
    yield _text(left + 16, y, "name", _cut(node.title, TEXT_MAX))
    if node.detail:
        y += 16
        yield _text(left + 16, y, "detail", _cut(node.detail, TEXT_MAX))
    for note in node.notes:
        y += 14
        yield _text(left + 16, y, "note", _cut(note, NOTE_MAX))
    yield "</g>"


def _chip_text(node: GraphNode) -> str:
    mark = node.mark
    if mark is None:
        return ""
    if mark.status == "waiting" and mark.waiting:
        return f"waiting: {mark.waiting}"
    if mark.undo:
        return f"{mark.status}, {UNDO_WORDS[mark.undo]}"
    times = f" x{mark.attempts}" if mark.attempts > 1 else ""
    took = f" {format_duration_ms(mark.duration_ms)}" if mark.duration_ms else ""
    return f"{mark.status}{times}{took}"


def _chip(node: GraphNode, right: float, baseline: float) -> str:
    assert node.mark is not None
    _, dot, colour = STATUS_COLOURS[node.mark.status]
    return (
        f'<text x="{right:.1f}" y="{baseline:.1f}" class="chip" style="fill:{colour}">'
        f'<tspan fill="{dot}">● </tspan>{escape(_chip_text(node))}</text>'
    )


def _tooltip(node: GraphNode) -> str:
    lines = [f"{node.ref} ({node.type_name})", node.detail, *node.notes]
    if node.mark is not None and node.mark.error is not None:
        lines.append(f"{node.mark.error.type}: {node.mark.error.message}")
    return "\n".join(line for line in lines if line)


def _ports(layout: Layout) -> list[tuple[float, float]]:
    """Where each line leaves its source and enters its target: spread over the box's side in order of direction."""
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for number, line in enumerate(layout.lines):
        starts.setdefault(line.source, []).append(number)
        ends.setdefault(line.target, []).append(number)
    ports = [(layout.boxes[line.source].x, layout.boxes[line.target].x) for line in layout.lines]
    for source, numbers in starts.items():
        nexts = {number: layout.boxes[layout.lines[number].boxes[1]].x for number in numbers}
        for number, x in _spread(layout.boxes[source], nexts):
            ports[number] = (x, ports[number][1])
    for target, numbers in ends.items():
        lasts = {number: layout.boxes[layout.lines[number].boxes[-2]].x for number in numbers}
        for number, x in _spread(layout.boxes[target], lasts):
            ports[number] = (ports[number][0], x)
    return ports


def _spread(box: Box, wanted: dict[int, float]) -> Iterator[tuple[int, float]]:
    """Places on a box's side, as near to the wanted ones as order and distance allow."""
    half = box.width / 2 - PORT_INSET
    step = min(PORT_GAP, 2 * half / len(wanted))
    numbers = sorted(wanted, key=lambda number: (wanted[number], number))
    offsets = [place * step for place in range(len(numbers))]
    low, high = box.x - half, box.x + half - offsets[-1]
    free = [wanted[number] - offset for number, offset in zip(numbers, offsets, strict=True)]
    for number, x, offset in zip(numbers, pooled(free, [1.0] * len(free)), offsets, strict=True):
        yield number, min(max(x, low), high) + offset


def _edge(
    layout: Layout, edge: GraphEdge, number: int, ports: list[tuple[float, float]], *, hide_label: bool
) -> Iterator[str]:
    line = layout.lines[number]
    source, target = layout.boxes[line.source], layout.boxes[line.target]
    bends = [layout.boxes[box] for box in line.boxes[1:-1]]
    start = (ports[number][0], source.y + source.height / 2)
    end = (ports[number][1], target.y - target.height / 2)
    colour = EDGE_COLOURS[edge.outcome]
    state = {True: " taken", False: " untaken", None: ""}[edge.taken]
    yield f'<path class="edge{state}" d="{_curve(start, bends, (end[0], end[1] - 7))}" stroke="{colour}"/>'
    opacity = 0.45 if edge.taken is False else 1
    x, y = end
    yield f'<path d="M{x:.1f} {y - 1:.1f}l-4.6 -8.4q4.6 2.2 9.2 0z" fill="{colour}" opacity="{opacity}"/>'
    if not hide_label:
        yield _edge_label(edge, bends[0], colour, opacity)


def _edge_label(edge: GraphEdge, box: Box, colour: str, opacity: float) -> str:
    text = _cut(edge.label, LABEL_MAX)
    return (
        f"<g><title>{escape(edge.label)}</title>"
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - 9:.1f}" width="{box.width:.1f}" height="18" rx="9" '
        f'fill="#ffffff" stroke="{colour}" stroke-opacity="{0.4 * opacity:.2f}"/>'
        f'<g opacity="{opacity}">{_text(box.x, box.y + 3.8, "label", text, colour=colour)}</g></g>'
    )


def _curve(start: tuple[float, float], bends: list[Box], end: tuple[float, float]) -> str:
    """Smooth downwards through the bends; vertical at each, and straight through the height of their layer."""
    x, y = start
    words = [f"M{x:.1f} {y:.1f}"]
    points = [(bend.x, bend.y) for bend in bends]
    for next_x, next_y in [*points, end]:
        middle = (y + next_y) / 2
        words.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(words)


def _header(graph: WorkflowGraph, width: float) -> Iterator[str]:
    yield _text(MARGIN, 38, "title", graph.name)
    if graph.version:
        yield _text(MARGIN + _text_width(graph.name, 20) + 12, 38, "aside", graph.version)
    if graph.run is None:
        return
    fill, stroke, colour = STATUS_COLOURS[graph.run.status]
    chip_width = _text_width(graph.run.status, 12) + 28
    x = width - MARGIN - chip_width
    yield (
        f'<rect x="{x:.1f}" y="22" width="{chip_width:.1f}" height="24" rx="12" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + chip_width / 2:.1f}" y="38" class="label" style="fill:{colour};font-size:12px">'
        f"{graph.run.status}</text>"
    )
    yield _text(MARGIN, 56, "aside", f"run {graph.run.run_id}")


def _header_width(graph: WorkflowGraph) -> float:
    title = _text_width(graph.name, 20) + _text_width(graph.version, 12)
    if graph.run is None:
        return title
    return max(title + 140, _text_width(graph.run.run_id, 12) + 40)


def _defer_rows(defers: tuple[GraphNode, ...]) -> list[list[tuple[GraphNode, float, float]]]:
    sized = [(node, *_size(node)) for node in defers]
    return [sized[start : start + DEFER_COLUMNS] for start in range(0, len(sized), DEFER_COLUMNS)]


def _defer_area(defers: tuple[GraphNode, ...]) -> tuple[float, float]:
    rows = _defer_rows(defers)
    if not rows:
        return 0.0, 0.0
    widths = [sum(width for _, width, _ in row) + DEFER_GAP * (len(row) + 1) for row in rows]
    heights = [max(height for _, _, height in row) for row in rows]
    return max(widths), 64.0 + sum(heights) + DEFER_GAP * (len(rows) - 1)


def _defers(defers: tuple[GraphNode, ...], width: float, top: float) -> Iterator[str]:
    """The steps that run at the end, in a frame of their own below the flow."""
    area_width, area_height = _defer_area(defers)
    if not defers:
        return
    left = (width - area_width) / 2
    yield (
        f'<rect x="{left:.1f}" y="{top + 22:.1f}" width="{area_width:.1f}" height="{area_height - 22:.1f}" rx="12" '
        f'fill="#f8fafc" stroke="#cbd5e1" stroke-dasharray="5 5"/>'
    )
    yield _text(left + 16, top + 40, "aside", "when the run ends")
    y = top + 50
    for row in _defer_rows(defers):
        x = left + DEFER_GAP
        row_height = max(height for _, _, height in row)
        for node, node_width, node_height in row:
            yield from _node(node, Box(node_width, node_height, x=x + node_width / 2, y=y + row_height / 2))
            x += node_width + DEFER_GAP
        y += row_height + DEFER_GAP


def _type_colour(type_name: str) -> str:
    return TYPE_COLOURS.get(type_name, PARKED_COLOUR)


def _rect(x: float, y: float, width: float, height: float, fill: str, *, opacity: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="9" fill="{fill}" '
        f'opacity="{opacity}"/>'
    )


def _text(x: float, y: float, style: str, text: str, *, colour: str = "") -> str:
    fill = f' style="fill:{colour}"' if colour else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{style}"{fill}>{escape(text)}</text>'


def _cut(text: str, limit: int) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= limit else one_line[: limit - 1] + "…"


def _text_width(text: str, size: float) -> float:
    """Generous for the fonts named in the style: boxes must hold their text whichever of them is there."""
    units = sum(0.36 if char in "iljtfr.,:;|!'()[] " else 0.9 if char in "mwMW@%" else 0.62 for char in text)
    return units * size
