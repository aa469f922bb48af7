"""`ductor host`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions

if TYPE_CHECKING:
    from ductor.actors.host import HostHealth
    from ductor.cli.options import OutputFormat
    from ductor.host import Host


def host(
    *,
    tasks: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    definitions: Path | None = None,
    drain: str = "30s",
    health: str = "60s",
    database: DatabaseOptions = DatabaseOptions(),
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
    """
    import asyncio
    import logging

    from ductor.actors.host import HostOptions
    from ductor.cli.arguments import duration_argument
    from ductor.handlers import load_tasks
    from ductor.host import Host
    from ductor.process import fastest_loop

    drain_ms, interval_ms = duration_argument(drain, "--drain"), duration_argument(health, "--health")
    assert drain_ms is not None
    assert interval_ms is not None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    engine = Host(
        tasks=load_tasks(tasks),
        definitions=definitions if definitions is not None else (),
        database=database.address,
        tenant=database.tenant,
        options=HostOptions(drain_ms=drain_ms),
    )
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(_carry_out(engine, interval_ms / 1_000, output.output))
    return 0


async def _carry_out(engine: "Host", interval_s: float, output: "OutputFormat") -> None:
    """Live until a signal comes."""
    import asyncio
    import logging

    from ductor.cli.output import progress
    from ductor.process import tune_garbage_collector

    log = logging.getLogger("ductor")
    with progress("starting the host", output):
        await engine.open()
    tune_garbage_collector()
    try:
        reporting = asyncio.create_task(_report(engine, interval_s, output))
        await engine.run_until_stopped()
        reporting.cancel()
        log.info("stopping: attempts in flight may finish")
    finally:
        await engine.close()
    log.info("stopped")


async def _report(engine: "Host", interval_s: float, output: "OutputFormat") -> None:
    """Print the host's health now, and again after each interval."""
    import asyncio

    from ductor.cli.output import print_json

    while True:
        health = await engine.health()
        if output == "table":
            print(_line(health, engine.registry.names), flush=True)
        else:
            print_json(health)
        await asyncio.sleep(max(interval_s, 1.0))


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
