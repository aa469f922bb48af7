"""`ductor show`."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ductor.cli.options import DatabaseOptions, OutputOptions

if TYPE_CHECKING:
    from ductor.actors.views import RunView, StepView

VALUE_WIDTH = 60


def show(
    run: str,
    /,
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Show a run and its steps: what is done, what is running, and what it waits for.

    Parameters
    ----------
    run
        Id of the run.
    """
    import msgspec

    from ductor.actors.sweeper import HOST_ALIVE_MS
    from ductor.cli.output import print_json
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            view = await client.run(run).status()
            hosts = await client.engine.store.hosts(alive_within_ms=HOST_ALIVE_MS)
        tasks = {host.host_id: host.tasks for host in hosts}
        waits = {step.ref: why for step in view.steps if (why := awaited(step, tasks))}
        if output.output == "table":
            _print(view, waits)
        else:
            print_json({**msgspec.to_builtins(view), "waits_for": waits})
        return 0

    return run_async(work())


def awaited(step: "StepView", tasks: Mapping[str, tuple[str, ...]]) -> str:
    """What an unfinished step waits for, in words; `tasks` are the handlers of each live host."""
    from ductor.cli.output import timestamp

    if step.status == "running" and step.task:
        if not tasks:
            return f"no host is alive to run handler `{step.task}`; start one with `ductor host`"
        if not any(step.task in names for names in tasks.values()):
            return f"no live host has handler `{step.task}`; start one with it (`ductor host --tasks MODULE`)"
        return f"handler `{step.task}` has been at work since {timestamp(step.dispatched_at_us)}"
    if step.status == "waiting":
        until = f" until {timestamp(step.until_us)}" if step.until_us else ""
        return f"{step.waiting}{until}"
    return ""


def _print(view: "RunView", waits: Mapping[str, str]) -> None:
    from ductor.cli.output import json_text, print_table

    for label, value in _facts(view):
        print(f"{label + ':':<12} {value}")
    print()
    cells = [
        (
            f"{step.ref}{' (at the end)' if step.is_defer else ''}",
            step.type,
            step.status,
            str(step.attempts or ""),
            waits.get(step.ref)
            or (f"{step.error.type}: {step.error.message}" if step.error is not None else "")
            or (json_text(step.output, VALUE_WIDTH) if step.output is not None else ""),
        )
        for step in view.steps
    ]
    print_table(("step", "type", "status", "attempts", "waits for, error or output"), cells)


def _facts(view: "RunView") -> Iterator[tuple[str, str]]:
    from ductor.cli.output import json_text, timestamp

    version = f" version {view.definition_version}" if view.definition_version else ""
    yield "run", view.run_id
    yield "definition", f"{view.definition}{version} ({view.manifest_hash[:12]})"
    yield "status", f"{view.status}{f' ({view.reason})' if view.reason else ''}"
    yield "started", f"{timestamp(view.started_at_us)} UTC"
    if view.ended_at_us:
        yield "ended", f"{timestamp(view.ended_at_us)} UTC"
    if view.key is not None:
        yield "key", view.key
    yield "trigger", json_text(view.trigger, 2_000)
    if view.context:
        yield "context", json_text(view.context, 2_000)
    if view.error is not None:
        yield "error", f"{view.error.type}: {view.error.message}".removesuffix(": ")
    if view.status == "completed":
        yield "output", json_text(view.output, 2_000)
