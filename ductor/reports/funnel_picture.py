"""How runs went through a definition, as a picture of its graph: what became of each step, and how often each edge was
taken.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ductor.actors.errors import ManifestMissingError
from ductor.definitions.manifest import decode_manifest
from ductor.definitions.model import Definition
from ductor.graph import GraphEdge, GraphNode, WorkflowGraph, graph_of, render_svg
from ductor.projections.reports import FlowCount
from ductor.reports.errors import EmptyPictureError

if TYPE_CHECKING:
    from ductor.read_models import ReadModelClient

STATUSES: Final = ("succeeded", "failed", "cancelled", "skipped")
ENDS: Final = ("completed", "failed", "cancelled", "terminated", "continued")


async def read_funnel_svg(client: "ReadModelClient", definition: str, *, manifest_hash: str | None = None) -> str:
    """Draw how runs of one version of a definition went.

    Args:
        manifest_hash: which version; None for the one that is published now.

    Raises:
        DefinitionNotFoundError, ManifestMissingError: there is no such definition, or version.
        EmptyPictureError: no run of this version has begun.
    """
    if manifest_hash is None:
        record = await client.engine.published_definition(definition, tenant=client.tenant)
    else:
        found = await client.engine.store.manifest(manifest_hash)
        if found is None or found.name != definition:
            raise ManifestMissingError(manifest_hash)
        record = found
    counts = await client.funnel(definition, manifest_hash=record.manifest_hash)
    return funnel_svg(decode_manifest(record.manifest), counts)


def funnel_svg(definition: Definition, counts: Sequence[FlowCount]) -> str:
    """Draw counts of this definition.

    Raises:
        EmptyPictureError: they count no run.
        GraphTooLargeError: it has too many long edges to be drawn.
    """
    return render_svg(funnel_graph(definition, counts))


def funnel_graph(definition: Definition, counts: Sequence[FlowCount]) -> WorkflowGraph:
    """The graph with what was counted written on it. Raises EmptyPictureError."""
    numbers: Counter[tuple[str, str, str]] = Counter()
    for one in counts:
        numbers[one.measure, one.step, one.target] += one.count
    if not numbers["started", "", ""]:
        raise EmptyPictureError("the funnel", f"no run of this version of {definition.name} has begun")
    graph = graph_of(definition)
    return replace(
        graph,
        version=" · ".join(part for part in (graph.version, _summary(numbers)) if part),
        nodes=tuple(_node(node, numbers) for node in graph.nodes),
        edges=tuple(_edges(graph.edges, numbers)),
    )


def _summary(numbers: Counter[tuple[str, str, str]]) -> str:
    ended: Counter[str] = Counter()
    for (measure, _, status), count in numbers.items():
        if measure == "ended":
            ended[status] += count
    ends = ", ".join(f"{ended[status]:,} {status}" for status in ENDS if ended[status])
    began = f"{numbers['started', '', '']:,} began"
    return f"{began}: {ends}" if ends else began


def _node(node: GraphNode, numbers: Counter[tuple[str, str, str]]) -> GraphNode:
    settled = [(status, numbers["settled", node.ref, status]) for status in STATUSES]
    told = " · ".join(f"{count:,} {status}" for status, count in settled if count)
    entered = numbers["entered", node.ref, ""]
    return replace(
        node, notes=(f"begun {entered:,} times" if entered != 1 else "begun once", *((told,) if told else ()))
    )


def _edges(edges: Sequence[GraphEdge], numbers: Counter[tuple[str, str, str]]) -> Iterator[GraphEdge]:
    """All edges from one step to another are counted as one, so they are drawn as one."""
    together: dict[tuple[str, str], list[GraphEdge]] = {}
    for edge in edges:
        together.setdefault((edge.source, edge.target), []).append(edge)
    for (source, target), found in together.items():
        count = numbers["taken", source, target]
        labels = " or ".join(dict.fromkeys(edge.label for edge in found))
        yield replace(found[0], text=f"{count:,} · {labels}", taken=count > 0)
