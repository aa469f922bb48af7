"""The graph of a definition: order, reach and cycles. Iterative and linear, so that ten thousand steps are no matter.

Nodes are numbered by their place in `refs`; ancestor sets are integers used as bit sets over those numbers, which
makes the closure of a long chain a few thousand machine-word operations instead of a few million set insertions.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

import msgspec

from ductor.definitions.model import Edge

CYCLES_SHOWN_MAX = 10
"""Cycles reported for one definition; more say nothing new."""


class Graph:
    """Steps and the distinct arrows between them. Edges that name an unknown step are left out.

    Attributes:
        refs: the steps, in the order given.
        successors, predecessors: by number of the node, distinct, in order of number.
    """

    __slots__ = ("numbers", "predecessors", "refs", "successors")

    def __init__(self, refs: Sequence[str], edges: Iterable[Edge]) -> None:
        self.refs = tuple(refs)
        self.numbers = {ref: number for number, ref in enumerate(self.refs)}
        after: list[set[int]] = [set() for _ in self.refs]
        before: list[set[int]] = [set() for _ in self.refs]
        for edge in edges:
            source, target = self.numbers.get(edge.source), self.numbers.get(edge.to)
            if source is not None and target is not None:
                after[source].add(target)
                before[target].add(source)
        self.successors = tuple(tuple(sorted(numbers)) for numbers in after)
        self.predecessors = tuple(tuple(sorted(numbers)) for numbers in before)

    def order(self) -> tuple[int, ...]:
        """Kahn order; among steps that are free at once the one that stands first.

        Nodes on or behind a cycle are absent.
        """
        open_sources = [len(sources) for sources in self.predecessors]
        free = [number for number, count in enumerate(open_sources) if count == 0]
        heapify(free)
        order: list[int] = []
        while free:
            number = heappop(free)
            order.append(number)
            for target in self.successors[number]:
                open_sources[target] -= 1
                if open_sources[target] == 0:
                    heappush(free, target)
        return tuple(order)

    def entrypoints(self) -> tuple[str, ...]:
        """The steps without incoming edges."""
        return tuple(ref for ref, sources in zip(self.refs, self.predecessors, strict=True) if not sources)

    def ancestor_bits(self, order: Sequence[int]) -> list[int]:
        """For every node of `order`, the bit set of the nodes that lead to it."""
        bits = [0] * len(self.refs)
        for number in order:
            gathered = 0
            for source in self.predecessors[number]:
                gathered |= bits[source] | (1 << source)
            bits[number] = gathered
        return bits

    def ancestors(self, ref: str) -> frozenset[str]:
        """The steps that lead to `ref`."""
        seen: set[int] = set()
        stack = list(self.predecessors[self.numbers[ref]])
        while stack:
            number = stack.pop()
            if number not in seen:
                seen.add(number)
                stack.extend(self.predecessors[number])
        return frozenset(self.refs[number] for number in seen)

    def cycles(self) -> list[tuple[str, ...]]:
        """Cycles without a step in common, each from its earliest step; at most `CYCLES_SHOWN_MAX`."""
        left = set(range(len(self.refs))) - set(self.order())
        found: list[tuple[str, ...]] = []
        while len(found) < CYCLES_SHOWN_MAX:
            left = self._without_dead_ends(left)
            if not left:
                break
            cycle = self._walk_back(left)
            found.append(tuple(self.refs[number] for number in cycle))
            left -= set(cycle)
        return found

    def _without_dead_ends(self, left: set[int]) -> set[int]:
        """Leave out, again and again, nodes without a predecessor or without a successor among those left."""
        left = set(left)
        stack = list(left)
        while stack:
            number = stack.pop()
            if number not in left:
                continue
            before = [source for source in self.predecessors[number] if source in left]
            after = [target for target in self.successors[number] if target in left]
            if not before or not after:
                left.remove(number)
                stack.extend(before)
                stack.extend(after)
        return left

    def _walk_back(self, left: set[int]) -> list[int]:
        """Follow predecessors until a node comes again; every node left has one."""
        number = min(left)
        places: dict[int, int] = {}
        path: list[int] = []
        while number not in places:
            places[number] = len(path)
            path.append(number)
            number = next(source for source in self.predecessors[number] if source in left)
        cycle = path[places[number] :]
        cycle.reverse()
        start = cycle.index(min(cycle))
        return cycle[start:] + cycle[:start]


def edge_key(edge: Edge) -> tuple[str, str, bool, int, int, str]:
    """Where an edge stands in a manifest: by source and outcome, plain edges first, then choices in their order."""
    return (edge.source, edge.outcome, edge.group is not None, edge.group or 0, edge.order, edge.to)


def sorted_edges(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """The edges in the order of a manifest, choice groups numbered from 0 within their source and outcome."""
    numbers: dict[tuple[str, str], dict[int, int]] = {}
    result: list[Edge] = []
    for edge in sorted(edges, key=edge_key):
        if edge.group is None:
            result.append(edge)
            continue
        groups = numbers.setdefault((edge.source, edge.outcome), {})
        number = groups.setdefault(edge.group, len(groups))
        result.append(edge if number == edge.group else msgspec.structs.replace(edge, group=number))
    return tuple(result)
