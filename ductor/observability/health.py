"""Health and readiness of a host, as what starts and balances processes asks for them.

* *healthy*: the process is worth keeping. It is while it starts, works and drains; whatever else is wrong around it
  (the database away, Redis away) would not be cured by a restart. Only a host that has ended is not, and one whose
  journal writer has died of a defect.
* *ready*: it takes up new runs. Not before it has started, not while it drains, not while the database is away.

`concerns` says what people should look at, whether or not it decides anything.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from ductor.actors.host import HostHealth

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
        host_id: empty before the host has started.
    """

    is_healthy: bool
    is_ready: bool
    phase: Phase
    concerns: tuple[Concern, ...]
    host_id: str = ""


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
    concerns: list[Concern] = []
    if phase != "running":
        kind: ConcernKind = "starting" if phase == "new" else phase
        concerns.append(Concern(kind=kind, detail=f"the host is {phase}"))
    if phase == "running" and health is None:
        concerns.append(Concern(kind="not_known", detail="the host did not say how it is in time"))
    if database_problem:
        concerns.append(Concern(kind="store_unavailable", detail=database_problem))
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


def _concerns_of(health: HostHealth) -> list[Concern]:
    concerns: list[Concern] = []
    if not health.store.is_available:
        concerns.append(Concern(kind="store_unavailable", detail=health.store.reason))
    if health.queue is not None and not health.queue.is_available:
        concerns.append(Concern(kind="queue_unavailable", detail=f"{health.queue.tier}: {health.queue.reason}"))
    concerns.extend(
        Concern(kind="handler_missing", detail=f"attempts wait for handler {name!r}", count=count)
        for name, count in sorted(health.waiting_for_handler.items())
    )
    if health.set_aside:
        named = sorted(health.set_aside.items())[:MAX_RUNS_NAMED]
        detail = "; ".join(f"run {run_id}: {reason}" for run_id, reason in named)
        concerns.append(Concern(kind="run_set_aside", detail=detail, count=len(health.set_aside)))
    if health.workers is not None and health.workers.stuck_threads:
        count = health.workers.stuck_threads
        concerns.append(Concern(kind="threads_stuck", detail="handlers that did not stop when told to", count=count))
    return concerns
