"""Metrics of one host, for Prometheus.

Counters and histograms are kept as things happen, in this process, on the event loop (`counting`): all of them together
are a few microseconds of a step's time. What can be looked up (queues, read models, runs in memory) is looked up when
somebody asks, in `gauges`. Needs `pip install 'ductor-engine[metrics]'`.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from ductor.actors.observing import AnswerCommit
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
from ductor.observability.counted import DURATION_BUCKETS_S, Counted
from ductor.observability.counting import CounterSet, HistogramSet
from ductor.observability.labels import MAX_DEFINITIONS, MAX_QUEUES, MAX_TENANTS, BoundedNames

if TYPE_CHECKING:
    from ductor.host import Host

TICK_BUCKETS_S: Final = (25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 50e-3, 250e-3)
COMMIT_BUCKETS_S: Final = (0.5e-3, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 0.1, 0.25, 1.0, 5.0, 30.0)
BATCH_BUCKETS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
LATENESS_BUCKETS_S: Final = (1e-3, 5e-3, 10e-3, 50e-3, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)


class Metrics(Counted):
    """Counts what a host does; `page` is what Prometheus scrapes.

    Attributes:
        queues: the queues of attempts that were dispatched, MAX_QUEUES at most.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Args: `registry` is one that the service exposes itself; without it, a new one."""
        self.queues = BoundedNames(MAX_QUEUES)
        self._definition = BoundedNames(MAX_DEFINITIONS)
        self._tenant = BoundedNames(MAX_TENANTS)
        self._make_counters()
        self._make_histograms()
        self._counting: dict[type, Callable[[RunState, AnyEvent], None]] = {
            AttemptDispatched: self._dispatched,
            AttemptFinished: self._finished,
            NodeSettled: self._settled,
            TimerFired: self._fired,
            ChildStarted: self._child_started,
            RunContinued: self._ended,
            RunEnded: self._ended,
        }
        super().__init__(registry)

    def _make_counters(self) -> None:
        of = CounterSet
        self._runs_started = of("ductor_runs_started", "Runs that this host began to carry out.", ("definition",))
        self._runs_ended = of("ductor_runs_ended", "Runs that ended on this host, by how.", ("definition", "status"))
        self._children = of("ductor_child_runs_started", "Runs that steps of runs started.", ("definition",))
        self._steps = of("ductor_steps_settled", "Steps that came to an end, by how.", ("definition", "status"))
        self._attempts = of("ductor_attempts_dispatched", "Attempts given to workers, by handler.", ("task",))
        self._retries = of("ductor_retries", "Those of them that were not a step's first, by handler.", ("task",))
        self._results = of(
            "ductor_attempts_finished", "Results of attempts that were applied.", ("definition", "outcome")
        )
        self._conflicts = of("ductor_conflicts", "Commits that lost their version check.")

    def _make_histograms(self) -> None:
        of = HistogramSet
        self._tick = of("ductor_tick_duration_seconds", "What a decision took to compute.", TICK_BUCKETS_S)
        self._commit = of(
            "ductor_commit_latency_seconds", "From handing a commit to the store to its answer.", COMMIT_BUCKETS_S
        )
        self._batch = of("ductor_commit_batch_size", "Commits written by one statement.", BATCH_BUCKETS)
        self._batch_duration = of("ductor_commit_batch_seconds", "What writing one batch took.", COMMIT_BUCKETS_S)
        self._lateness = of(
            "ductor_timer_lateness_seconds", "From a deadline to the tick that acted on it.", LATENESS_BUCKETS_S
        )
        self._run_duration = of(
            "ductor_run_duration_seconds", "From the start of a run to its end.", DURATION_BUCKETS_S, ("definition",)
        )
        self._attempt_duration = of(
            "ductor_attempt_duration_seconds", "How long handlers worked.", DURATION_BUCKETS_S, ("definition",)
        )

    async def page(self, host: "Host") -> bytes:
        """What was counted, and what is looked up now: the page that Prometheus scrapes."""
        return self.exposition() + await gauges.exposition(host, self.queues.known, self._tenant)

    # --- what a host tells --------------------------------------------------------------------------------------------

    def ticked(self, duration_s: float) -> None:
        self._tick.add(duration_s)

    def submitting(self, answer: AnswerCommit) -> AnswerCommit:
        began_s = perf_counter()

        def answered(outcome: CommitAnswer) -> None:
            self._commit.add(perf_counter() - began_s)
            answer(outcome)

        return answered

    def conflicted(self, run_id: str) -> None:
        self._conflicts.add()

    def batch_written(self, commits: int, duration_s: float) -> None:
        self._batch.add(commits)
        self._batch_duration.add(duration_s)

    def committed(self, state: RunState, events: Sequence[AnyEvent], *, has_begun: bool) -> None:
        if has_begun:
            self._runs_started.add((self._definition(state.definition),))
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
        self._attempts.add((task,))
        if event.attempt > 1:
            self._retries.add((task,))

    def _finished(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, AttemptFinished)
        definition = self._definition(state.definition)
        self._results.add((definition, event.outcome))
        if event.started_at_us:
            self._attempt_duration.add((event.finished_at_us - event.started_at_us) / 1e6, (definition,))

    def _settled(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, NodeSettled)
        self._steps.add((self._definition(state.definition), event.status))

    def _fired(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, TimerFired)
        self._lateness.add((state.at_us - event.due_at_us) / 1e6)

    def _child_started(self, state: RunState, event: AnyEvent) -> None:
        assert isinstance(event, ChildStarted)
        self._children.add((self._definition(event.definition),))

    def _ended(self, state: RunState, event: AnyEvent) -> None:
        definition = self._definition(state.definition)
        self._runs_ended.add((definition, state.status))
        self._run_duration.add((state.at_us - state.started_at_us) / 1e6, (definition,))
