"""What is looked up when somebody scrapes: the state of the host or the worker, its queues, a host's read models.

A look-up that fails or takes too long leaves its metrics out, and `ductor_lookup_failed` says which it was: a database
that is away must not take the counters with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from ductor.actors.host import HostHealth
from ductor.actors.queue.distributed import DistributedQueue
from ductor.actors.queue.items import QueueDepth, system_queue
from ductor.actors.queue.tiered import TieredQueue
from ductor.actors.remote_worker import WorkerHealth
from ductor.actors.worker import PoolLoad
from ductor.definitions.errors import DuctorError
from ductor.observability.labels import OTHER, BoundedNames
from ductor.observability.probe import database_problem
from ductor.projections.errors import ProjectionsUnavailableError

if TYPE_CHECKING:
    from ductor.host import Host
    from ductor.projections.read_models import ProjectionStatus
    from ductor.worker import Worker

LOOKUP_TIMEOUT_S: Final = 3.0
DEFAULT_QUEUE: Final = "default"
WAKEUPS: Final = "wakeups"
"""The label of this host's own queue of wakeups, whose name would be another one in every life."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Gauges(Collector):
    """One scrape's findings."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}

    def put(self, name: str, text: str, value: float, **labels: str) -> None:
        """A value; all of one name have the same labels."""
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = GaugeMetricFamily(f"ductor_{name}", text, labels=list(labels))
        family.add_metric(list(labels.values()), value)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """What `generate_latest` asks for."""
        return self._families.values()


async def exposition(host: "Host", queues: Iterable[str], tenants: BoundedNames) -> bytes:
    """Everything that is looked up, as Prometheus' text.

    Args:
        queues: of attempts, beside `default` and those that the host leaves to workers.
        tenants: which of them have a label of their own.
    """
    gauges = Gauges()
    failed: list[str] = []
    gauges.put(
        "up", "Whether the host carries out runs; not while it starts and drains.", float(host.phase == "running")
    )
    if host.phase == "running":
        health = await _looked_up("health", failed, host.health)
        is_up = not await database_problem(host.engine.store)
        gauges.put(
            "store_up",
            "Whether the database answers and takes commits.",
            float(is_up and health is not None and health.store.is_available),
        )
        if health is not None:
            _of_host(gauges, health)
        queue = host.engine.queue
        if queue is not None:
            names = sorted({DEFAULT_QUEUE, *host.engine.options.engine.remote_queues, *queues})
            for tier in queue.tiers if isinstance(queue, TieredQueue) else (queue,):
                await _of_tier(gauges, failed, tier, names, host.engine.host_id, tenants)
        statuses = await _looked_up("projections", failed, lambda: _projections(host))
        for status in statuses or ():
            _of_projection(gauges, status)
    for what in failed:
        gauges.put("lookup_failed", "1 for what could not be looked up in this scrape.", 1.0, what=what)
    return generate_latest(gauges)


async def worker_exposition(worker: "Worker") -> bytes:
    """Everything that is looked up of a worker, as Prometheus' text. Queues are looked up by hosts."""
    gauges = Gauges()
    failed: list[str] = []
    is_running = worker.phase == "running"
    gauges.put("worker_up", "Whether the worker takes attempts; not while it starts and drains.", float(is_running))
    if is_running:
        is_store_up = not await database_problem(worker.store)
        gauges.put("worker_store_up", "Whether the database answers.", float(is_store_up))
        health = await _looked_up("health", failed, worker.health)
        if health is not None:
            _of_worker(gauges, health)
    for what in failed:
        gauges.put("lookup_failed", "1 for what could not be looked up in this scrape.", 1.0, what=what)
    return generate_latest(gauges)


def _of_worker(gauges: Gauges, health: WorkerHealth) -> None:
    put = gauges.put
    put("worker_leases", "Attempts in hand, those whose results wait for the database among them.", health.leases)
    put("worker_results_in_keeping", "Results that the database does not have yet.", health.in_keeping)
    put("worker_attempts_without_handler", "Items given back for want of a handler.", sum(health.no_handler.values()))
    put("queue_up", "Whether the queue between processes serves.", float(health.queue.is_available))
    if health.load is not None:
        _of_load(gauges, health.load)


async def _looked_up(what: str, failed: list[str], look_up: Callable[[], Awaitable[T]]) -> T | None:
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            return await look_up()
    except (DuctorError, TimeoutError, OSError) as error:
        _log.info("metrics are without %s: %s", what, error)
        failed.append(what)
        return None


async def _projections(host: "Host") -> "list[ProjectionStatus]":
    try:
        return list(await host.projections())
    except ProjectionsUnavailableError:  # runs are kept in memory: there are none, and nothing is wrong
        return []


def _of_host(gauges: Gauges, health: HostHealth) -> None:
    put = gauges.put
    put("store_queued_commits", "Commits without an answer yet.", health.store.queued_commits)
    put("hot_runs", "Runs whose coordinator is in memory.", health.hot_runs)
    put("armed_timers", "Runs with a timer in memory.", health.armed_timers)
    put("set_aside_runs", "Runs that the host leaves alone after errors.", len(health.set_aside))
    put("long_runs", "Runs that come near to their continue_as_new_after.", len(health.long_runs))
    put("partitions", "Partitions that the host owns.", health.partitions)
    put("neighbours", "Other hosts that live.", len(health.neighbours))
    put("guest_attempts", "Attempts in hand of runs that other hosts own.", health.guests)
    put("attempts_without_handler", "Attempts that wait for a handler.", sum(health.waiting_for_handler.values()))
    if health.queue is not None:
        put("queue_up", "Whether the queue between processes serves.", float(health.queue.is_available))
    if health.workers is not None:
        _of_load(gauges, health.workers)


def _of_load(gauges: Gauges, load: PoolLoad) -> None:
    put = gauges.put
    put("attempts_running", "Attempts at work in this process.", load.running)
    put("attempts_waiting", "Attempts that wait for room in this process.", load.waiting)
    put("attempts_unconfirmed", "Results whose commit has no answer yet.", load.unconfirmed)
    put("stuck_threads", "Threads whose handler did not stop when told to.", load.stuck_threads)


async def _of_tier(
    gauges: Gauges,
    failed: list[str],
    tier: DistributedQueue,
    names: Iterable[str],
    host_id: str,
    tenants: BoundedNames,
) -> None:
    health = await tier.health()
    gauges.put("queue_tier_up", "Whether this tier of the queue serves.", float(health.is_available), tier=health.tier)
    if not health.is_available:
        failed.append(f"queue {health.tier}")
        return
    for name, label in (*((name, name) for name in names), (system_queue(host_id), WAKEUPS)):
        depth = await _looked_up(f"queue {health.tier}", failed, lambda name=name: tier.depth(name))  # type: ignore[misc]
        if depth is None:
            return
        _of_queue(gauges, depth, label, health.tier, tenants)


def _of_queue(gauges: Gauges, depth: QueueDepth, queue: str, tier: str, tenants: BoundedNames) -> None:
    """By tenant: those beyond the bound are added up, and the oldest of them counts."""
    queued: dict[str, int] = {}
    in_flight: dict[str, int] = {}
    age_ms: dict[str, int] = {}
    for lane in depth.lanes:
        tenant = tenants(lane.tenant)
        queued[tenant] = queued.get(tenant, 0) + lane.queued
        in_flight[tenant] = in_flight.get(tenant, 0) + lane.in_flight
        age_ms[tenant] = max(age_ms.get(tenant, 0), lane.oldest_age_ms)
    beyond = depth.queued - sum(queued.values())
    if beyond > 0:  # lanes that the queue did not list
        queued[OTHER] = queued.get(OTHER, 0) + beyond
    put = gauges.put
    for tenant, count in queued.items():
        put("queue_depth", "Items that wait.", count, queue=queue, tier=tier, tenant=tenant)
    for tenant, count in in_flight.items():
        put("queue_in_flight", "Items in somebody's hands.", count, queue=queue, tier=tier, tenant=tenant)
    for tenant, age in age_ms.items():
        put("queue_oldest_seconds", "Age of the oldest that waits.", age / 1_000, queue=queue, tier=tier, tenant=tenant)
    put("queue_dead", "Items set aside after too many deliveries.", depth.dead, queue=queue, tier=tier)


def _of_projection(gauges: Gauges, status: "ProjectionStatus") -> None:
    labels = {"projection": status.name, "generation": str(status.generation)}
    put = gauges.put
    put("projection_lag_rows", "Journal rows that are not in a read model yet.", status.lag_rows, **labels)
    put("projection_lag_seconds", "Age of the oldest of them.", status.lag_ms / 1_000, **labels)
    put("projection_failed", "Whether it stands still.", float(status.status == "failed"), **labels)
