"""Pictures of workflows: a definition, or a run of it, as text and as SVG."""

from ductor.graph.marks import NodeMark, RunMarks, marks_of
from ductor.graph.model import GraphEdge, GraphNode, WorkflowGraph, graph_of
from ductor.graph.svg import render_svg
from ductor.graph.text import render_text

__all__ = [
    "GraphEdge",
    "GraphNode",
    "NodeMark",
    "RunMarks",
    "WorkflowGraph",
    "graph_of",
    "marks_of",
    "render_svg",
    "render_text",
]
