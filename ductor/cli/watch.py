"""`ductor watch`."""

from typing import Annotated, Final

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions

POLL_S: Final = 0.25


def watch(
    run: str,
    /,
    *,
    timeout: str | None = None,
    from_start: Annotated[bool, Parameter(negative="")] = False,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Print what happens to a run as it happens, until it ends. Exit code 1 when it does not complete.

    Parameters
    ----------
    run
        Id of the run; where other runs continue it, the latest is watched, and those that continue that one.
    timeout
        Watch so long at most, as `10m`; exit code 4 when the time is over.
    from_start
        Print what has happened so far, too.
    """
    import asyncio

    from ductor.actors.errors import WaitTimeoutError
    from ductor.cli.arguments import duration_argument
    from ductor.cli.output import say
    from ductor.cli.rows import print_row
    from ductor.cli.session import connected, run_async
    from ductor.errors import unsuccessful

    timeout_ms = duration_argument(timeout, "--timeout")

    async def work() -> int:
        async with connected(database, output.output) as client:
            view = await client.run(run).status()
            watched, version = view.run_id, 0 if from_start else view.version
            while True:
                rows = await client.engine.history(watched, after_version=version)
                for row in rows:
                    print_row(row, output.output)
                    version = row.version
                outcome = await client.engine.ended(watched) if not rows else None
                if outcome is None and not rows:
                    await asyncio.sleep(POLL_S)
                elif outcome is not None and outcome.successor_run_id is None:
                    break
                elif outcome is not None and outcome.successor_run_id is not None:
                    watched, version = outcome.successor_run_id, 0
                    say(f"continued as run {watched}", output.output)
        if outcome.status != "completed":
            raise unsuccessful(outcome.status, watched, outcome.error)
        return 0

    async def bounded() -> int:
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                return await work()
        except TimeoutError:
            raise WaitTimeoutError(run, timeout_ms or 0) from None

    return run_async(bounded())
