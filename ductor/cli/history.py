"""`ductor history`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def history(
    run: str,
    /,
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Show a run's journal: every row, with its time and events.

    Parameters
    ----------
    run
        Id of the run.
    """
    from ductor.cli.output import print_json
    from ductor.cli.rows import print_row
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            handle = client.run(run)
            await handle.status()  # tells another tenant's run from one that does not exist: neither is found
            rows = await handle.history()
        if output.output == "json":
            print_json(rows)
        else:
            for row in rows:
                print_row(row, output.output)
        return 0

    return run_async(work())
