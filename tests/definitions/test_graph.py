"""Order, reach and cycles."""

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ductor.definitions.graph import CYCLES_SHOWN_MAX, Graph, sorted_edges
from ductor.definitions.model import Edge

REFS = [f"s{number}" for number in range(8)]
EDGES = st.sets(st.tuples(st.sampled_from(REFS), st.sampled_from(REFS)), max_size=20)


def edges_of(pairs):
    return [Edge(source=source, outcome="success", to=to) for source, to in sorted(pairs)]


def forward(pairs):
    """The pairs that lead from an earlier step to a later one; they form no cycle."""
    return {(source, to) for source, to in pairs if source < to}


@given(EDGES)
def test_the_order_is_topological_and_whole(pairs):
    graph = Graph(REFS, edges_of(forward(pairs)))
    order = [REFS[number] for number in graph.order()]
    assert order == REFS  # the refs are in topological order already, and nothing moves without need
    assert graph.cycles() == []


@given(EDGES, st.permutations(REFS))
def test_sources_come_first_whatever_the_order_of_the_document(pairs, refs):
    graph = Graph(refs, edges_of(forward(pairs)))
    places = {refs[number]: place for place, number in enumerate(graph.order())}
    assert len(places) == len(refs)
    assert all(places[source] < places[to] for source, to in forward(pairs))


@given(EDGES)
def test_cycles_are_found_where_the_standard_library_finds_them(pairs):
    sorter = TopologicalSorter({ref: {source for source, to in pairs if to == ref} for ref in REFS})
    try:
        sorter.prepare()
        expected = False
    except CycleError:
        expected = True
    cycles = Graph(REFS, edges_of(pairs)).cycles()
    assert bool(cycles) == expected
    for cycle in cycles:
        assert all((source, to) in pairs for source, to in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
        assert cycle[0] == min(cycle)
    assert len({ref for cycle in cycles for ref in cycle}) == sum(len(cycle) for cycle in cycles)


@given(EDGES)
def test_ancestors_are_what_leads_to_a_step(pairs):
    pairs = forward(pairs)
    graph = Graph(REFS, edges_of(pairs))
    bits = graph.ancestor_bits(graph.order())
    for number, ref in enumerate(REFS):
        expected = {source for source, to in pairs if to == ref}
        while added := {source for source, to in pairs if to in expected} - expected:
            expected |= added
        assert graph.ancestors(ref) == expected
        assert {REFS[place] for place in range(len(REFS)) if bits[number] >> place & 1} == expected


def test_cycles_shown_are_bounded():
    refs = [f"s{number}" for number in range(40)]
    pairs = [(ref, ref) for ref in refs]
    assert len(Graph(refs, edges_of(pairs)).cycles()) == CYCLES_SHOWN_MAX


def test_a_long_chain_needs_no_recursion():
    refs = [f"s{number}" for number in range(10_000)]
    graph = Graph(refs, [Edge(source=one, outcome="success", to=other) for one, other in pairwise(refs)])
    assert len(graph.order()) == 10_000
    assert len(graph.ancestors(refs[-1])) == 9_999
    assert graph.ancestor_bits(graph.order())[-1].bit_count() == 9_999
    around = Graph(refs, [*edges_of([(refs[-1], refs[0])]), *edges_of(pairwise(refs))])
    assert [len(cycle) for cycle in around.cycles()] == [10_000]


def test_choice_groups_are_numbered_from_zero_whatever_they_were():
    edges = [
        Edge(source="a", outcome="success", to="c", group=7, order=1),
        Edge(source="a", outcome="success", to="b", group=7, order=0, when="x"),
        Edge(source="a", outcome="success", to="d", group=9),
        Edge(source="a", outcome="success", to="z"),
        Edge(source="a", outcome="error", to="z", group=3),
    ]
    assert [(edge.outcome, edge.group, edge.order, edge.to) for edge in sorted_edges(edges)] == [
        ("error", 0, 0, "z"),
        ("success", None, 0, "z"),
        ("success", 0, 0, "b"),
        ("success", 0, 1, "c"),
        ("success", 1, 0, "d"),
    ]
