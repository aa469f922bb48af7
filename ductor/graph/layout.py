"""Layered layout: where each box, label and line of a workflow lies.

1. Every node gets a layer: one more than the deepest of its sources. Layers are doubled, so that between two layers
   of boxes lies one of labels; an edge passes through a *bend* in every layer between its ends, and its label sits
   on the first. A label is laid out like a box, so labels never cover boxes or each other.
2. The order within layers is improved by sweeps towards the mean of the neighbours; the order with the fewest
   crossings wins.
3. Positions come from sweeps too: each layer moves as near to its neighbours as its order and the gaps allow. That
   is a least squares problem with an exact answer (pooling of adjacent violators), so there is nothing to tune but
   the weights.
4. Long edges are straightened where their neighbours leave room.

Everything is deterministic, and linear in boxes and bends but for the sorting. Bends are bounded by `BENDS_MAX`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from ductor.definitions.errors import DuctorError

BENDS_MAX: Final = 50_000
ORDER_SWEEPS: Final = 8
POSITION_SWEEPS: Final = 16
GAP_X: Final = 34.0
GAP_Y: Final = 18.0
BARE_LAYER_HEIGHT: Final = 12.0
LABEL_ROOM: Final = 16.0
BEND_WIDTH: Final = 10.0
STRAIGHTNESS: Final = 8.0
GAP_STRAIGHT: Final = 14.0
STRAIGHTENING_PASSES: Final = 2


class GraphTooLargeError(DuctorError):
    """A workflow has too many long edges to be drawn.

    Attributes:
        bends: how many bends it needs.
        limit: the bound.
    """

    code = "graph_too_large"

    def __init__(self, bends: int, limit: int) -> None:
        self.bends, self.limit = bends, limit
        super().__init__(f"too large for a picture: {bends} bends, the limit is {limit}; ask for the text form")


@dataclass(slots=True)
class Box:
    """A node or a bend. `x` and `y` are its centre; `neighbours` are (number of box, weight) one layer up and down."""

    width: float
    height: float
    layer: int = 0
    is_bend: bool = False
    x: float = 0.0
    y: float = 0.0
    above: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Line:
    """An edge: the numbers of the boxes it runs through, ends included. The label sits on the second one."""

    source: int
    target: int
    label_width: float
    label_height: float
    boxes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Layout:
    """The finished layout; boxes come in the order given, bends after them."""

    boxes: list[Box]
    lines: list[Line]
    width: float
    height: float


def lay_out(sizes: Sequence[tuple[float, float]], lines: list[Line]) -> Layout:
    """Lay out boxes of these sizes, numbered in an order in which every line leads forward.

    Raises:
        GraphTooLargeError: more bends than `BENDS_MAX`.
    """
    boxes = [Box(width, height) for width, height in sizes]
    _assign_layers(boxes, lines)
    _add_bends(boxes, lines)
    layers = _ordered_layers(boxes)
    _assign_x(boxes, layers)
    _straighten(boxes, layers, lines)
    height = _assign_y(boxes, layers)
    left = min((box.x - box.width / 2 for box in boxes), default=0.0)
    for box in boxes:
        box.x -= left
    width = max((box.x + box.width / 2 for box in boxes), default=0.0)
    return Layout(boxes, lines, width, height)


def _assign_layers(boxes: list[Box], lines: list[Line]) -> None:
    for line in sorted(lines, key=lambda line: line.source):
        boxes[line.target].layer = max(boxes[line.target].layer, boxes[line.source].layer + 2)


def _add_bends(boxes: list[Box], lines: list[Line]) -> None:
    needed = sum(boxes[line.target].layer - boxes[line.source].layer - 1 for line in lines)
    if needed > BENDS_MAX:
        raise GraphTooLargeError(needed, BENDS_MAX)
    for line in lines:
        line.boxes = [line.source]
        for layer in range(boxes[line.source].layer + 1, boxes[line.target].layer):
            first = layer == boxes[line.source].layer + 1
            boxes.append(
                Box(
                    max(BEND_WIDTH, line.label_width if first else 0.0),
                    line.label_height if first else 0.0,
                    layer,
                    is_bend=True,
                )
            )
            line.boxes.append(len(boxes) - 1)
        line.boxes.append(line.target)
        for upper, lower in pairwise(line.boxes):
            boxes[upper].below.append(lower)
            boxes[lower].above.append(upper)


def _ordered_layers(boxes: list[Box]) -> list[list[int]]:
    """The layers, each in the order found best."""
    layers = _first_order(boxes)
    best, fewest = [list(layer) for layer in layers], _crossings(boxes, layers)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        downwards = sweep % 2 == 0
        places = {number: place for layer in layers for place, number in enumerate(layer)}
        for layer in layers if downwards else reversed(layers):
            means = {}
            for number in layer:
                neighbours = boxes[number].above if downwards else boxes[number].below
                means[number] = _mean((float(places[n]) for n in neighbours), float(places[number]))
            layer.sort(key=lambda number: (means[number], places[number]))
            places.update((number, place) for place, number in enumerate(layer))
        crossings = _crossings(boxes, layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _first_order(boxes: list[Box]) -> list[list[int]]:
    """Depth first from the top, so that branches begin side by side."""
    layers: list[list[int]] = [[] for _ in range(1 + max((box.layer for box in boxes), default=0))]
    seen: set[int] = set()
    for root in range(len(boxes)):
        stack = [root] if not boxes[root].above else []
        while stack:
            number = stack.pop()
            if number not in seen:
                seen.add(number)
                layers[boxes[number].layer].append(number)
                stack.extend(reversed(boxes[number].below))
    return layers


def _crossings(boxes: list[Box], layers: list[list[int]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        places = {number: place for place, number in enumerate(lower)}
        seen: list[int] = []
        for number in upper:
            targets = sorted(places[target] for target in boxes[number].below)
            total += sum(len(seen) - bisect_left(seen, target + 1) for target in targets)
            for target in targets:
                insort(seen, target)
    return total


def _assign_x(boxes: list[Box], layers: list[list[int]]) -> None:
    for layer in layers:
        x = 0.0
        for number in layer:
            boxes[number].x = x + boxes[number].width / 2
            x += boxes[number].width + GAP_X
    for sweep in range(POSITION_SWEEPS):
        if sweep >= POSITION_SWEEPS - 2:
            for layer in layers:
                _move_layer(boxes, layer, up=True, down=True)
        else:
            downwards = sweep % 2 == 0
            for layer in layers if downwards else reversed(layers):
                _move_layer(boxes, layer, up=downwards, down=not downwards)


def _move_layer(boxes: list[Box], layer: list[int], *, up: bool, down: bool) -> None:
    """Move a layer's boxes towards their neighbours above and below, keeping order and gaps."""
    offsets, offset = [], 0.0
    for place, number in enumerate(layer):
        if place:
            offset += (boxes[layer[place - 1]].width + boxes[number].width) / 2 + GAP_X
        offsets.append(offset)
    wanted, weights = [], []
    for number in layer:
        box = boxes[number]
        neighbours = [boxes[n] for n in ((box.above if up else []) + (box.below if down else []))]
        pulls = [STRAIGHTNESS if box.is_bend and other.is_bend else 1.0 for other in neighbours]
        total = sum(pulls)
        wanted.append(sum(p * other.x for p, other in zip(pulls, neighbours, strict=True)) / total if total else box.x)
        weights.append(total or 0.01)
    positions = pooled([want - offset for want, offset in zip(wanted, offsets, strict=True)], weights)
    for number, position, offset in zip(layer, positions, offsets, strict=True):
        boxes[number].x = position + offset


def pooled(wanted: list[float], weights: list[float]) -> list[float]:
    """The non-decreasing numbers nearest to the wanted ones, by weighted least squares."""
    pools: list[tuple[float, float, int]] = []
    for want, weight in zip(wanted, weights, strict=True):
        mean, total, count = want, weight, 1
        while pools and pools[-1][0] > mean:
            other_mean, other_total, other_count = pools.pop()
            mean = (mean * total + other_mean * other_total) / (total + other_total)
            total, count = total + other_total, count + other_count
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]


def _straighten(boxes: list[Box], layers: list[list[int]], lines: list[Line]) -> None:
    """Give all bends of an edge one position, where no box is in the way."""
    places = {number: place for layer in layers for place, number in enumerate(layer)}

    def fits(number: int, x: float) -> bool:
        box, layer, place = boxes[number], layers[boxes[number].layer], places[number]
        before = boxes[layer[place - 1]] if place else None
        after = boxes[layer[place + 1]] if place + 1 < len(layer) else None
        return (before is None or before.x + before.width / 2 + GAP_STRAIGHT <= x - box.width / 2) and (
            after is None or x + box.width / 2 + GAP_STRAIGHT <= after.x - after.width / 2
        )

    for _ in range(STRAIGHTENING_PASSES):
        for line in lines:
            bends = line.boxes[1:-1]
            candidates = (boxes[bends[0]].x, boxes[bends[-1]].x, sum(boxes[bend].x for bend in bends) / len(bends))
            for x in candidates:
                if all(fits(bend, x) for bend in bends):
                    for bend in bends:
                        boxes[bend].x = x
                    break


def _assign_y(boxes: list[Box], layers: list[list[int]]) -> float:
    y = 0.0
    for number, layer in enumerate(layers):
        is_bends_only = number % 2 == 1
        height = max((boxes[box].height for box in layer), default=0.0)
        if is_bends_only:
            height = height + LABEL_ROOM if height else BARE_LAYER_HEIGHT
        for box in layer:
            boxes[box].y = y + height / 2
        y += height + GAP_Y
    return max(0.0, y - GAP_Y)


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise
