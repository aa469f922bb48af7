"""`ductor start`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, JsonArgument, OutputOptions


def start(  # noqa: PLR0913 - options, all of which have defaults
    name: str,
    /,
    *,
    input_: Annotated[JsonArgument | None, Parameter(name="--input")] = None,
    key: str | None = None,
    version: str | None = None,
    wait: Annotated[bool, Parameter(negative="")] = False,
    timeout: str | None = None,
    traceparent: Annotated[str | None, Parameter(name="--traceparent", env_var="TRACEPARENT")] = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Start a run of a published definition. A host carries it out.

    Parameters
    ----------
    name
        Name of the definition.
    input_
        The trigger: JSON, `@file`, or `-` for standard input.
    key
        Makes the start idempotent: a second one with the same key gives the first one's run.
    version
        Version label; the newest without one.
    wait
        Wait for the end and print the output. Exit code 1 when the run does not complete.
    timeout
        Wait so long at most, as `30s`; exit code 4 when the time is over.
    traceparent
        The trace that the run belongs to, as of the header of this name.
    """
    from ductor.actors.sweeper import HOST_ALIVE_MS
    from ductor.cli.arguments import duration_argument, json_argument
    from ductor.cli.output import print_json, progress, say
    from ductor.cli.session import connected, run_async

    trigger = json_argument(input_, "--input")
    timeout_ms = duration_argument(timeout, "--timeout")

    async def work() -> int:
        async with connected(database, output.output) as client:
            run = await client.start(name, trigger, key=key, version=version, traceparent=traceparent)
            if not await client.engine.store.hosts(alive_within_ms=HOST_ALIVE_MS):
                say("note: no host is alive to carry the run out; start one with `ductor host`", output.output)
            started = {"run_id": run.run_id, "is_new": run.is_new}
            if not wait:
                if output.output == "table":
                    print(run.run_id)
                else:
                    print_json(started)
                return 0
            with progress(f"run {run.run_id} goes on", output.output):
                result = await run.result(None if timeout_ms is None else timeout_ms / 1_000)
            print_json(result if output.output == "table" else {**started, "status": "completed", "output": result})
            return 0

    return run_async(work())
