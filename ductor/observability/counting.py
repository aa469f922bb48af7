"""Counters and histograms that cost next to nothing to keep.

Prometheus' own are made for threads: each has a lock, and a step of a run would take several of them. These belong to
the event loop's thread, are plain numbers, and become Prometheus' families when somebody asks. A scrape from another
thread sees numbers that may be an increment apart, and nothing worse.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

Labels = tuple[str, ...]


class CounterSet:
    """One counter for each combination of labels; their values are bounded by who counts."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self._name, self._text, self._label_names = name, text, tuple(labels)
        self._counts: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, labels: Labels = (), amount: float = 1) -> None:
        """One more, or so much more."""
        self._counts[labels] = self._counts.get(labels, 0) + amount

    def family(self) -> CounterMetricFamily:
        """As Prometheus has it."""
        family = CounterMetricFamily(self._name, self._text, labels=self._label_names)
        for labels, count in list(self._counts.items()):
            family.add_metric(labels, count)
        return family


class _Distribution:
    """Counts by bucket, the last of which has no bound, and the sum of what was seen."""

    __slots__ = ("counts", "total")

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.total = 0.0


class HistogramSet:
    """One histogram for each combination of labels."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        """Args: `bounds` are the buckets' upper bounds, ascending."""
        self._name, self._text, self._label_names = name, text, tuple(labels)
        self._bounds = tuple(bounds)
        self._seen: dict[Labels, _Distribution] = {} if labels else {(): self._new()}

    def _new(self) -> _Distribution:
        return _Distribution(len(self._bounds) + 1)

    def add(self, value: float, labels: Labels = ()) -> None:
        """One more value."""
        seen = self._seen.get(labels)
        if seen is None:
            seen = self._seen[labels] = self._new()
        seen.counts[bisect_left(self._bounds, value)] += 1
        seen.total += value

    def family(self) -> HistogramMetricFamily:
        """As Prometheus has it."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._label_names)
        for labels, seen in list(self._seen.items()):
            family.add_metric(labels, list(self._buckets(seen)), sum_value=seen.total)
        return family

    def _buckets(self, seen: _Distribution) -> Iterable[tuple[str, float]]:
        count = 0
        for bound, more in zip((*self._bounds, float("inf")), seen.counts, strict=True):
            count += more
            yield "+Inf" if bound == float("inf") else str(float(bound)), count
