"""Health and readiness of a host or a worker, as what starts and balances processes asks for them.

* *healthy*: the process is worth keeping. It is while it starts, works and drains; whatever else is wrong around it
  (the database away, Redis away) would not be cured by a restart. Only a host that has ended is not, and one whose
  journal writer has died of a defect.
* *ready*: it takes up new runs, a worker new attempts. Not before it has started, not while it drains, not while the
  database is away, and a worker not while no queue serves.

`concerns` says what people should look at, whether or not it decides anything.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from ductor.actors.host import HostHealth
from ductor.actors.queue.items import QueueHealth
from ductor.actors.remote_worker import WorkerHealth
from ductor.actors.worker import PoolLoad

Phase = Literal["new", "starting", "running", "draining", "stopped"]
"""Where a host is in its life."""
ConcernKind = Literal[
    "starting",
    "draining",
    "stopped",
    "store_unavailable",
    "queue_unavailable",
    "handler_missing",
    "run_set_aside",
    "projection_stopped",
    "threads_stuck",
    "results_in_keeping",
    "not_known",
]

MAX_RUNS_NAMED: Final = 20
"""Runs set aside that a report names; it counts all of them."""


class Concern(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be. `count` is how often, `detail` what a person needs to know."""

    kind: ConcernKind
    detail: str
    count: int = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the endpoint answers.

    Attributes:
        is_healthy, is_ready: see the module's docstring.
        host_id, worker_id: what it is called in the database; empty for the other kind, and before it has started.
    """

    is_healthy: bool
    is_ready: bool
    phase: Phase
    concerns: tuple[Concern, ...]
    host_id: str = ""
    worker_id: str = ""


def report_of(
    phase: Phase,
    health: HostHealth | None,
    *,
    database_problem: str = "",
    stopped_projections: Sequence[tuple[str, str]] = (),
) -> Report:
    """Judge a host.

    Args:
        health: what it says of itself; None when it can't be asked.
        database_problem: why the database does not answer; empty when it does.
        stopped_projections: name and error of each that stands still.
    """
    concerns = _concerns_of_phase("host", phase, is_known=health is not None, database_problem=database_problem)
    if health is not None:
        concerns.extend(_concerns_of(health))
    concerns.extend(
        Concern(kind="projection_stopped", detail=f"{name}: {error}") for name, error in stopped_projections
    )
    can_write = health is not None and health.store.is_available and not database_problem
    is_defect = health is not None and health.store.needs_restart
    return Report(
        is_healthy=phase != "stopped" and not is_defect,
        is_ready=phase == "running" and health is not None and health.is_running and can_write,
        phase=phase,
        concerns=tuple(concerns),
        host_id=health.host_id if health is not None else "",
    )


def worker_report_of(phase: Phase, health: WorkerHealth | None, *, database_problem: str = "") -> Report:
    """Judge a worker.

    Args:
        health: what it says of itself; None when it can't be asked.
        database_problem: why the database does not answer; empty when it does.
    """
    concerns = _concerns_of_phase("worker", phase, is_known=health is not None, database_problem=database_problem)
    if health is not None:
        concerns.extend(_concern_of_queue(health.queue))
        concerns.extend(
            Concern(kind="handler_missing", detail=f"attempts for handler {name!r} were given back", count=count)
            for name, count in sorted(health.no_handler.items())
        )
        if health.in_keeping:
            detail = "results that wait for the database"
            concerns.append(Concern(kind="results_in_keeping", detail=detail, count=health.in_keeping))
        concerns.extend(_concern_of_threads(health.load))
    takes_attempts = health is not None and health.queue.is_available and not database_problem
    return Report(
        is_healthy=phase != "stopped",
        is_ready=phase == "running" and takes_attempts,
        phase=phase,
        concerns=tuple(concerns),
        worker_id=health.worker_id if health is not None else "",
    )


def _concerns_of_phase(what: str, phase: Phase, *, is_known: bool, database_problem: str) -> list[Concern]:
    concerns: list[Concern] = []
    if phase != "running":
        kind: ConcernKind = "starting" if phase == "new" else phase
        concerns.append(Concern(kind=kind, detail=f"the {what} is {phase}"))
    elif not is_known:
        concerns.append(Concern(kind="not_known", detail=f"the {what} did not say how it is in time"))
    if database_problem:
        concerns.append(Concern(kind="store_unavailable", detail=database_problem))
    return concerns


def _concerns_of(health: HostHealth) -> list[Concern]:
    concerns: list[Concern] = []
    if not health.store.is_available:
        concerns.append(Concern(kind="store_unavailable", detail=health.store.reason))
    concerns.extend(_concern_of_queue(health.queue))
    concerns.extend(
        Concern(kind="handler_missing", detail=f"attempts wait for handler {name!r}", count=count)
        for name, count in sorted(health.waiting_for_handler.items())
    )
    if health.set_aside:
        named = sorted(health.set_aside.items())[:MAX_RUNS_NAMED]
        detail = "; ".join(f"run {run_id}: {reason}" for run_id, reason in named)
        concerns.append(Concern(kind="run_set_aside", detail=detail, count=len(health.set_aside)))
    concerns.extend(_concern_of_threads(health.workers))
    return concerns


def _concern_of_queue(queue: QueueHealth | None) -> list[Concern]:
    """A queue of two tiers serves while one of them does, and gives a reason for the other."""
    if queue is None or not queue.reason:
        return []
    return [Concern(kind="queue_unavailable", detail=f"{queue.tier}: {queue.reason}")]


def _concern_of_threads(load: PoolLoad | None) -> list[Concern]:
    if load is None or not load.stuck_threads:
        return []
    return [Concern(kind="threads_stuck", detail="handlers that did not stop when told to", count=load.stuck_threads)]
