"""`ductor inbox`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def inbox(
    *,
    person: str | None = None,
    limit: Annotated[int, Parameter(help="How many at most.")] = 100,
    after: Annotated[tuple[str, str] | None, Parameter(negative="")] = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List what waits for people: approvals, cases and questions.

    Parameters
    ----------
    person
        Only what names this person (or `group:NAME`), or nobody in particular.
    after
        Run and step of the last entry seen, to continue a page.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected, run_async

    if not 1 <= limit <= 1_000:
        raise ArgumentError("--limit", f"from 1 to 1000, found {limit}")

    async def work() -> int:
        async with connected(database, output.output) as client:
            entries = await client.inbox(person=person, after=after, limit=limit)
        cells = [
            (
                entry.run_id,
                entry.item.node,
                entry.item.kind,
                entry.item.title,
                ", ".join(entry.item.people) or "anybody",
                entry.item.status,
                timestamp(entry.item.since_us),
                timestamp(entry.item.due_at_us),
            )
            for entry in entries
        ]
        columns = ("run", "step", "kind", "title", "for", "status", "since (UTC)", "until (UTC)")
        print_rows(entries, output.output, columns, cells)
        return 0

    return run_async(work())
