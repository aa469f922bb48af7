"""`ductor release`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def release(
    run: str,
    /,
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let hosts take up a run again that was set aside (`ductor runs --set-aside`, `ductor explain`).

    Its history stays as it is. A run whose cause is not mended is set aside again. Exit code 5 when the run was not set
    aside.

    Parameters
    ----------
    run
        Id of the run.
    """
    from ductor.cli.failures import EXIT_CONFLICT, EXIT_OK
    from ductor.cli.output import print_json
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            is_released = await client.release(run)
        if output.output == "table":
            print("hosts take it up again" if is_released else "it was not set aside")
        else:
            print_json({"run_id": run, "released": is_released})
        return EXIT_OK if is_released else EXIT_CONFLICT

    return run_async(work())
