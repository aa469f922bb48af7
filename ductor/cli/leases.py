"""`ductor leases`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def leases(
    *,
    key: str | None = None,
    run: str | None = None,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    after: Annotated[tuple[str, int] | None, Parameter(negative="")] = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List who holds leases, and who waits for them in which order.

    Parameters
    ----------
    key
        Only those of this key.
    run
        Only those of this run.
    after
        Key and position of the last entry seen, to continue a page.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected, run_async

    if not 1 <= limit <= 1_000:
        raise ArgumentError("--limit", f"from 1 to 1000, found {limit}")

    async def work() -> int:
        async with connected(database, output.output) as client:
            entries = await client.leases(key=key, run_id=run, after=after, limit=limit)
        cells = [
            (
                entry.key,
                str(entry.position),
                "holds" if entry.fence else "waits",
                entry.run_id,
                entry.node,
                str(entry.limit),
                str(entry.fence or ""),
                timestamp(entry.since_us),
            )
            for entry in entries
        ]
        columns = ("key", "position", "state", "run", "step", "limit", "fence", "since (UTC)")
        print_rows(entries, output.output, columns, cells)
        return 0

    return run_async(work())
