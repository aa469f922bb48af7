"""Metrics of one worker, for Prometheus: what its handlers did, and how it is.

Needs `pip install 'ductor-engine[metrics]'`. What becomes of runs is counted by hosts
(`metrics`): a result counts there once, and here each time that it was made.
"""

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from ductor.journal.events import AttemptFinished
from ductor.observability import gauges
from ductor.observability.counted import DURATION_BUCKETS_S, Counted
from ductor.observability.counting import CounterSet, HistogramSet

if TYPE_CHECKING:
    from ductor.worker import Worker


class WorkerMetrics(Counted):
    """Counts what a worker does; `page` is what Prometheus scrapes."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Args: `registry` is one that the service exposes itself; without it, a new one."""
        self._finished = CounterSet(
            "ductor_worker_attempts_finished", "Attempts whose result is durable, by handler.", ("task", "outcome")
        )
        self._duration = HistogramSet(
            "ductor_worker_attempt_duration_seconds", "How long handlers worked.", DURATION_BUCKETS_S, ("task",)
        )
        super().__init__(registry)

    async def page(self, worker: "Worker") -> bytes:
        """What was counted, and what is looked up now: the page that Prometheus scrapes."""
        return self.exposition() + await gauges.worker_exposition(worker)

    def attempt_reported(self, task: str, finished: AttemptFinished) -> None:
        name = self._task(task)
        self._finished.add((name, finished.outcome))
        if finished.started_at_us:
            self._duration.add((finished.finished_at_us - finished.started_at_us) / 1e6, (name,))
