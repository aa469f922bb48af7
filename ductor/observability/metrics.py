"""Metrics of one host, for Prometheus.

Counters and histograms are kept as things happen, in this process, on the event loop: each is a few microseconds of a
step's time. What can be looked up (queues, read models, runs in memory) is looked up when somebody asks, in `gauges`.
Needs `pip install 'ductor-engine[metrics]'`.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from ductor.actors.observing import AnswerCommit, Observer
from ductor.journal.commit import CommitAnswer
from ductor.journal.events import (
    AnyEvent,
    AttemptDispatched,
    AttemptFinished,
    ChildStarted,
    NodeSettled,
    RunContinued,
    RunEnded,
    TimerFired,
)
from ductor.journal.state import RunState
from ductor.observability import gauges
from ductor.observability.labels import MAX_DEFINITIONS, MAX_QUEUES, MAX_TASKS, MAX_TENANTS, BoundedNames

if TYPE_CHECKING:
    from ductor.host import Host

TICK_BUCKETS_S: Final = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 50e-3, 250e-3)
COMMIT_BUCKETS_S: Final = (0.5e-3, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.25, 1.0, 5.0, 30.0)
BATCH_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
LATENESS_BUCKETS_S: Final = (1e-3, 5e-3, 10e-3, 50e-3, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)
DURATION_BUCKETS_S: Final = (5e-3, 25e-3, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0)


class Metrics(Observer):
    """Counts what a host does; `exposition` is what Prometheus scrapes.

    Attributes:
        registry: holds the metrics.
        queues: the queues of attempts that were dispatched, MAX_QUEUES at most.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Args: `registry` is one that the service exposes itself; without it, a new one."""
        self.registry = registry if registry is not None else CollectorRegistry()
        self.queues = BoundedNames(MAX_QUEUES)
        self._definition = BoundedNames(MAX_DEFINITIONS)
        self._task = BoundedNames(MAX_TASKS)
        self._tenant = BoundedNames(MAX_TENANTS)
        self._make_metrics()
        self._children: dict[tuple[str, ...], Counter] = {}
        self._counting: dict[type, Callable[[RunState, AnyEvent], None]] = {
            AttemptDispatched: self._dispatched,
            AttemptFinished: self._finished,
            NodeSettled: self._settled,
            TimerFired: self._fired,
            ChildStarted: self._child_started,
            RunContinued: self._ended,
            RunEnded: self._ended,
        }

    def _make_metrics(self) -> None:
        self._counters = {
            name: Counter(f"ductor_{name}", text, labels, registry=self.registry)
            for name, text, labels in (
                ("runs_started", "Runs that this host began to carry out.", ("definition",)),
                ("runs_ended", "Runs that ended on this host, by how.", ("definition", "status")),
                ("child_runs_started", "Runs that steps of runs started.", ("definition",)),
                ("steps_settled", "Steps that came to an end, by how.", ("definition", "status")),
                ("attempts_dispatched", "Attempts given to workers, by handler.", ("task",)),
                ("retries", "Those of them that were not a step's first, by handler.", ("task",)),
                ("attempts_finished", "Results of attempts that were applied.", ("definition", "outcome")),
            )
        }
        self._conflicts = Counter("ductor_conflicts", "Commits that lost their version check.", registry=self.registry)
        self._tick = self._histogram("tick_duration_seconds", "What a decision took to compute.", TICK_BUCKETS_S)
        self._commit = self._histogram(
            "commit_latency_seconds", "From handing a commit to the store to its answer.", COMMIT_BUCKETS_S
        )
        self._batch = self._histogram("commit_batch_size", "Commits written by one statement.", BATCH_BUCKETS)
        self._batch_duration = self._histogram("commit_batch_seconds", "What writing one batch took.", COMMIT_BUCKETS_S)
        self._lateness = self._histogram(
            "timer_lateness_seconds", "From a deadline to the tick that acted on it.", LATENESS_BUCKETS_S
        )
        self._run_duration = Histogram(
            "ductor_run_duration_seconds",
            "From the start of a run to its end.",
            ("definition",),
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self._attempt_duration = Histogram(
            "ductor_attempt_duration_seconds",
            "How long handlers worked, by definition.",
            ("definition",),
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(f"ductor_{name}", text, buckets=buckets, registry=self.registry)

    def exposition(self) -> bytes:
        """What was counted, in Prometheus' text format, version 0.0.4."""
        return generate_latest(self.registry)

    async def page(self, host: "Host") -> bytes:
        """What was counted, and what is looked up now: the page that Prometheus scrapes."""
        return self.exposition() + await gauges.exposition(host, self.queues.known, self._tenant)

    # --- what a host tells --------------------------------------------------------------------------------------------

    def ticked(self, duration_s: float) -> None:
        self._tick.observe(duration_s)

    def submitting(self, answer: AnswerCommit) -> AnswerCommit:
        began_s = perf_counter()

        def answered(outcome: CommitAnswer) -> None:
            self._commit.observe(perf_counter() - began_s)
            answer(outcome)

        return answered

    def conflicted(self, run_id: str) -> None:
        self._conflicts.inc()

    def batch_written(self, commits: int, duration_s: float) -> None:
        self._batch.observe(commits)
        self._batch_duration.observe(duration_s)

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        if has_begun:
            self._count("runs_started", self._definition(state.definition))
        counting = self._counting
        for event in events:
            count = counting.get(type(event))
            if count is not None:
                count(state, event)

    # --- by kind of event ---------------------------------------------------------------------------------------------

    def _dispatched(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, AttemptDispatched)
        task = self._task(event.task)
        self.queues(event.queue)
        self._count("attempts_dispatched", task)
        if event.attempt > 1:
            self._count("retries", task)

    def _finished(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, AttemptFinished)
        definition = self._definition(state.definition)
        self._count("attempts_finished", definition, event.outcome)
        if event.started_at_us:
            seconds = (event.finished_at_us - event.started_at_us) / 1e6
            self._attempt_duration.labels(definition).observe(seconds)

    def _settled(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, NodeSettled)
        self._count("steps_settled", self._definition(state.definition), event.status)

    def _fired(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, TimerFired)
        self._lateness.observe((state.at_us - event.due_at_us) / 1e6)

    def _child_started(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, ChildStarted)
        self._count("child_runs_started", self._definition(event.definition))

    def _ended(self, state: RunState, event: AnyEvent) -> None:
        definition = self._definition(state.definition)
        self._count("runs_ended", definition, state.status)
        self._run_duration.labels(definition).observe((state.at_us - state.started_at_us) / 1e6)

    def _count(self, name: str, *labels: str) -> None:
        """Looking a metric of given labels up costs more than counting: what was found is kept. Labels are bounded."""
        key = (name, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self._counters[name].labels(*labels)
        child.inc()
