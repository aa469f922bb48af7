"""`ductor host`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.arguments import ArgumentError
from ductor.cli.monitoring import MonitoringOptions
from ductor.cli.options import DatabaseOptions, LogOptions, OutputOptions, RedisOptions
from ductor.journal.partitions import PARTITIONS

if TYPE_CHECKING:
    from ductor.actors.host import HostHealth, HostOptions


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServingOptions:
    """How a host serves, in how many processes."""

    drain: Annotated[str, Parameter(name="--drain", help="How long attempts may go on after a signal.")] = "30s"
    leave: Annotated[
        tuple[str, ...],
        Parameter(
            name="--leave-queue",
            negative="",
            help="A queue whose attempts are left to workers, even where the handler is here; may be given several "
            "times.",
        ),
    ] = ()
    processes: Annotated[
        int,
        Parameter(
            name="--processes",
            help="So many hosts, each in a process of its own. One that ends is started again.",
        ),
    ] = 1
    queue_policies: Annotated[
        Path | None,
        Parameter(
            name="--queue-policies",
            env_var="DUCTOR_QUEUE_POLICIES",
            help="A file with bounds of queues, and weights, caps and rates of tenants. The same for all hosts.",
        ),
    ] = None
    log_runs: Annotated[
        bool,
        Parameter(name="--log-runs", help="Log the start and end of every run, and attempts that fail.", negative=""),
    ] = False

    def host_options(self, drain_ms: int) -> "HostOptions":
        """The same for the engine. Raises InvalidSettingError for a file of policies that is not valid."""
        from ductor.actors.engine_options import EngineOptions
        from ductor.actors.host import HostOptions
        from ductor.actors.queue.policies import QueuePolicies
        from ductor.queue_policies import read_queue_policies

        policies = QueuePolicies() if self.queue_policies is None else read_queue_policies(self.queue_policies)
        return HostOptions(drain_ms=drain_ms, engine=EngineOptions(remote_queues=self.leave), policies=policies)


def host(  # noqa: PLR0913 - groups of options, all of which have defaults
    *,
    tasks: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    definitions: Path | None = None,
    health: str = "60s",
    serving: ServingOptions = ServingOptions(),
    monitoring: MonitoringOptions = MonitoringOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
    log: LogOptions = LogOptions(),
) -> int:
    """Carry out runs until told to stop (SIGTERM or SIGINT), then let attempts in flight finish.

    Parameters
    ----------
    tasks
        Where handlers are: `module`, or `module:attribute`; may be given several times.
    definitions
        A file or folder of definitions to publish first.
    health
        How often the host reports its health.
    """
    from functools import partial

    from ductor.actors.observing import Observer
    from ductor.cli.arguments import duration_argument
    from ductor.cli.serving import serve
    from ductor.handlers import load_tasks
    from ductor.host import Host
    from ductor.observability.logs import RunLog, configure_logs
    from ductor.processes import MAX_PROCESSES, ProcessGroup

    if not 1 <= serving.processes <= MAX_PROCESSES:
        raise ArgumentError("--processes", f"from 1 to {MAX_PROCESSES}, found {serving.processes}")
    drain_ms, interval_ms = duration_argument(serving.drain, "--drain"), duration_argument(health, "--health")
    assert drain_ms is not None
    assert interval_ms is not None
    formatter = configure_logs(log.log_format)
    metrics, tracing = monitoring.host_metrics(), monitoring.tracing()
    observers: list[Observer] = [one for one in (metrics, tracing) if one is not None]
    if serving.log_runs:
        observers.append(RunLog())
    engine = Host(
        tasks=load_tasks(tasks),
        definitions=definitions if definitions is not None else (),
        database=database.address,
        tenant=database.tenant,
        options=serving.host_options(drain_ms),
        redis=redis.settings,
        observers=observers,
    )
    line = partial(_line, tasks=engine.registry.names)
    around = monitoring.around(engine, metrics, tracing, serving.processes)
    work = partial(serve, engine, "host", interval_ms, output.output, line, around=around, formatter=formatter)
    if serving.processes == 1:
        work()
        return 0
    return ProcessGroup(serving.processes, work).run()


def _line(health: "HostHealth", tasks: tuple[str, ...]) -> str:
    load = health.workers
    parts = [
        f"host {health.host_id} is up",
        f"{len(tasks)} handler{'s' if len(tasks) != 1 else ''}",
        f"{health.hot_runs} runs in memory",
        f"{load.running if load else 0} attempts at work",
    ]
    if health.neighbours:
        others = len(health.neighbours)
        beside = f"beside {others} other host{'s' if others != 1 else ''}"
        parts.append(f"{health.partitions} of {PARTITIONS} partitions {beside}")
    if not health.store.is_available:
        parts.append(f"DATABASE AWAY: {health.store.reason}")
    if health.queue is not None and health.queue.reason:
        parts.append(f"QUEUE AWAY: {health.queue.reason}")
    parts.extend(f"{count} wait for handler `{name}`" for name, count in sorted(health.waiting_for_handler.items()))
    parts.extend(f"run {run_id} is set aside: {reason}" for run_id, reason in sorted(health.set_aside.items()))
    return "; ".join(parts)
