"""`ductor host`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions, RedisOptions

if TYPE_CHECKING:
    from ductor.actors.host import HostHealth


def host(
    *,
    tasks: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    definitions: Path | None = None,
    drain: str = "30s",
    health: str = "60s",
    leave: Annotated[tuple[str, ...], Parameter(name="--leave-queue", negative="")] = (),
    database: DatabaseOptions = DatabaseOptions(),
    redis: RedisOptions = RedisOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Carry out runs until told to stop (SIGTERM or SIGINT), then let attempts in flight finish.

    Parameters
    ----------
    tasks
        Where handlers are: `module`, or `module:attribute`; may be given several times.
    definitions
        A file or folder of definitions to publish first.
    drain
        How long attempts may go on after a signal.
    health
        How often the host reports its health.
    leave
        A queue whose attempts are left to workers, even where the handler is here; may be given several times.
    """
    import logging

    from ductor.actors.engine import EngineOptions
    from ductor.actors.host import HostOptions
    from ductor.cli.arguments import duration_argument
    from ductor.cli.serving import serve
    from ductor.handlers import load_tasks
    from ductor.host import Host

    drain_ms, interval_ms = duration_argument(drain, "--drain"), duration_argument(health, "--health")
    assert drain_ms is not None
    assert interval_ms is not None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    engine = Host(
        tasks=load_tasks(tasks),
        definitions=definitions if definitions is not None else (),
        database=database.address,
        tenant=database.tenant,
        options=HostOptions(drain_ms=drain_ms, engine=EngineOptions(remote_queues=leave)),
        redis=redis.settings,
    )
    names = engine.registry.names
    serve(engine, "host", interval_ms, output.output, lambda health: _line(health, names))
    return 0


def _line(health: "HostHealth", tasks: tuple[str, ...]) -> str:
    load = health.workers
    parts = [
        f"host {health.host_id} is up",
        f"{len(tasks)} handler{'s' if len(tasks) != 1 else ''}",
        f"{health.hot_runs} runs in memory",
        f"{load.running if load else 0} attempts at work",
    ]
    if not health.store.is_available:
        parts.append(f"DATABASE AWAY: {health.store.reason}")
    parts.extend(f"{count} wait for handler `{name}`" for name, count in sorted(health.waiting_for_handler.items()))
    parts.extend(f"run {run_id} is set aside: {reason}" for run_id, reason in sorted(health.set_aside.items()))
    return "; ".join(parts)
