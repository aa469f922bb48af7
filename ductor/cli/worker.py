"""`ductor worker`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.monitoring import MonitoringOptions
from ductor.cli.options import DatabaseOptions, LogOptions, OutputOptions, RedisOptions

if TYPE_CHECKING:
    from ductor.actors.remote_worker import WorkerHealth


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkLimits:
    """How much a worker takes on, and for how long."""

    concurrency: Annotated[int, Parameter(name="--concurrency", help="Attempts at a time.")] = 64
    visibility: Annotated[
        str, Parameter(name="--visibility", help="What this worker has goes to another one so long after it died.")
    ] = "15s"
    drain: Annotated[str, Parameter(name="--drain", help="How long attempts may go on after a signal.")] = "30s"


def worker(  # noqa: PLR0913 - groups of options, all but one of which have defaults
    *,
    tasks: Annotated[tuple[str, ...], Parameter(negative="")],
    queues: str = "default",
    health: str = "60s",
    limits: WorkLimits = WorkLimits(),
    monitoring: MonitoringOptions = MonitoringOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
    log: LogOptions = LogOptions(),
) -> int:
    """Run handlers for hosts elsewhere until told to stop (SIGTERM or SIGINT), then let attempts in flight finish.

    Parameters
    ----------
    tasks
        Where handlers are: `module`, or `module:attribute`; may be given several times.
    queues
        Whose attempts to take, separated by commas; those of the first one go before all others.
    health
        How often the worker reports its health.
    """
    from ductor.actors.worker_options import WorkerOptions
    from ductor.cli.arguments import duration_argument
    from ductor.cli.serving import serve
    from ductor.handlers import load_tasks
    from ductor.observability.logs import configure_logs
    from ductor.worker import Worker

    visibility_ms = duration_argument(limits.visibility, "--visibility")
    drain_ms, interval_ms = duration_argument(limits.drain, "--drain"), duration_argument(health, "--health")
    assert visibility_ms is not None
    assert drain_ms is not None
    assert interval_ms is not None
    formatter = configure_logs(log.log_format)
    metrics, tracing = monitoring.worker_metrics(), monitoring.tracing()
    engine = Worker(
        tasks=load_tasks(tasks),
        queues=[name.strip() for name in queues.split(",") if name.strip()],
        database=database.address,
        redis=redis.settings,
        options=WorkerOptions(concurrency=limits.concurrency, visibility_ms=visibility_ms, drain_ms=drain_ms),
        observers=[one for one in (metrics, tracing) if one is not None],
    )
    around = monitoring.around(engine, metrics, tracing)
    serve(engine, "worker", interval_ms, output.output, _line, around=around, formatter=formatter)
    return 0


def _line(health: "WorkerHealth") -> str:
    parts = [
        f"worker {health.worker_id} is up",
        f"serves {', '.join(health.queues)}",
        f"{len(health.tasks)} handler{'s' if len(health.tasks) != 1 else ''}",
        f"{health.leases} attempts in hand",
        f"{health.finished} finished",
    ]
    if health.in_keeping:
        parts.append(f"{health.in_keeping} RESULTS WAIT FOR THE DATABASE")
    if health.queue.reason:
        parts.append(f"QUEUE AWAY: {health.queue.reason}")
    parts.extend(f"{count} times no handler `{name}`" for name, count in sorted(health.no_handler.items()))
    return "; ".join(parts)
