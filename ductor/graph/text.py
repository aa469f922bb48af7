"""A workflow as text: each step once, in order, with the edges that leave it."""

from collections.abc import Iterator
from typing import Final

from ductor.definitions.durations import format_duration_ms
from ductor.graph.marks import UNDO_WORDS
from ductor.graph.model import GraphEdge, GraphNode, WorkflowGraph

MARKS: Final = {
    "pending": "○",
    "running": "▶",
    "waiting": "◷",
    "succeeded": "✔",
    "failed": "✘",
    "skipped": "·",
    "cancelled": "⊘",
}


def render_text(graph: WorkflowGraph) -> str:
    """The picture, without a line feed at its end. Of a run, each step shows its status and each edge whether it was
    taken.
    """
    return "\n".join(_lines(graph))


def _lines(graph: WorkflowGraph) -> Iterator[str]:
    version = f" {graph.version}" if graph.version else ""
    run = f"  run {graph.run.run_id} {graph.run.status}" if graph.run else ""
    yield f"{graph.name}{version}{run}"
    outgoing = graph.outgoing()
    joins = _incoming_counts(graph)
    heading_due = True
    for node in graph.nodes:
        if node.is_defer and heading_due:
            heading_due = False
            yield ""
            yield "when the run ends:"
        yield ""
        yield _step_line(node, joins[node.ref])
        if node.notes:
            yield f"│   {' · '.join(node.notes)}" if outgoing[node.ref] else f"    {' · '.join(node.notes)}"
        yield from _edge_lines(outgoing[node.ref])


def _incoming_counts(graph: WorkflowGraph) -> dict[str, int]:
    sources: dict[str, set[str]] = {node.ref: set() for node in graph.nodes}
    for edge in graph.edges:
        sources[edge.target].add(edge.source)
    return {ref: len(found) for ref, found in sources.items()}


def _step_line(node: GraphNode, sources: int) -> str:
    mark = node.mark
    sign = MARKS[mark.status] if mark else "●" if sources or node.is_defer else "◉"
    words = [f"{sign} {node.title}", node.type_name, node.detail]
    if sources > 1:
        words.append(f"(joins {sources})")
    if mark is not None and mark.status != "pending":
        words.append(f"[{_status_words(node)}]")
    return "  ".join(word for word in words if word)


def _status_words(node: GraphNode) -> str:
    mark = node.mark
    assert mark is not None
    words: list[str] = [mark.status if mark.waiting is None else f"waiting: {mark.waiting}"]
    if mark.attempts > 1:
        words.append(f"{mark.attempts} attempts")
    if mark.duration_ms:
        words.append(format_duration_ms(mark.duration_ms))
    if mark.error is not None:
        words.append(mark.error.type)
    if mark.undo:
        words.append(UNDO_WORDS[mark.undo])
    return ", ".join(words)


def _edge_lines(edges: list[GraphEdge]) -> Iterator[str]:
    width = max((len(edge.label) for edge in edges), default=0)
    for number, edge in enumerate(edges):
        corner = "└" if number == len(edges) - 1 else "├"
        not_taken = "   (not taken)" if edge.taken is False else ""
        yield f"{corner}── {edge.label} {'─' * (width - len(edge.label))}▶ {edge.target}{not_taken}"
