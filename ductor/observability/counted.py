"""What the metrics of hosts and of workers share: an observer that counts, for Prometheus' registry to collect."""

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from ductor.actors.observing import Observer
from ductor.observability.counting import CounterSet, HistogramSet
from ductor.observability.labels import MAX_TASKS, BoundedNames

DURATION_BUCKETS_S: Final = (5e-3, 25e-3, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0)


class Counted(Observer, Collector):
    """Counts what a process does.

    Attributes:
        registry: has this collector, and maybe others of the service.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Args: `registry` is one that the service exposes itself; without it, a new one."""
        self.registry = registry if registry is not None else CollectorRegistry()
        self._task = BoundedNames(MAX_TASKS)
        self._blocks = CounterSet("ductor_loop_blocks", "Times that something blocked the event loop.", ("task",))
        self._blocked_s = CounterSet("ductor_loop_blocked_seconds", "For how long in all.", ("task",))
        self.registry.register(self)

    def collect(self) -> Iterable[Metric]:
        """What the registry asks for."""
        kept = vars(self).values()
        return [one.family() for one in kept if isinstance(one, CounterSet | HistogramSet)]

    def exposition(self) -> bytes:
        """What was counted, in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    def loop_blocked(self, task: str, duration_s: float) -> None:
        labels = (self._task(task) if task else "",)
        self._blocks.add(labels)
        self._blocked_s.add(labels, duration_s)
