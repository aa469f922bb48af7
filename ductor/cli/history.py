"""`ductor history`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def history(
    run: str,
    /,
    *,
    chain: Annotated[bool, Parameter(negative="")] = False,
    follow: bool = True,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Show a run's journal: every row, with its time and events.

    Parameters
    ----------
    run
        Id of the run.
    chain
        Show the journals of all runs that continue each other, as if they were one.
    follow
        Where other runs continue this one, show the latest; with `--no-follow` this very one.
    """
    from ductor.cli.output import print_json
    from ductor.cli.rows import print_row
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            handle = client.run(run)
            # tells another tenant's run from one that does not exist: neither is found
            await handle.status(follows=False)
            rows = await handle.history(follows=follow, whole_chain=chain)
        if output.output == "json":
            print_json(rows)
        else:
            run_id = rows[0].run_id if rows else run
            for row in rows:
                if row.run_id != run_id:
                    run_id = row.run_id
                    print(f"continued as run {run_id}")
                print_row(row, output.output)
        return 0

    return run_async(work())
