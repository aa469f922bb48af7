"""`ductor runs`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.journal.events import RunStatus

if TYPE_CHECKING:
    from ductor.journal.records import Head

UNDONE_WORDS: Final = {"true": "undone", "partial": "undone in part"}
"""What people read of a run that has undone what it had done."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WhichOptions:
    """Which runs are listed."""

    parent: Annotated[str | None, Parameter(help="Id of a run: only those that it has started.")] = None
    root: Annotated[str | None, Parameter(help="Id of a run: only those below it, at any depth.")] = None
    set_aside: Annotated[
        bool,
        Parameter(
            name="--set-aside",
            negative="",
            help="Only runs that hosts leave alone until they are released, each with its reason; of the other options "
            "`--limit` counts.",
        ),
    ] = False


def runs(
    *,
    status: Annotated[tuple[RunStatus, ...], Parameter(negative="")] = (),
    definition: str | None = None,
    which: WhichOptions = WhichOptions(),
    limit: Annotated[int, Parameter(help="How many at most.")] = 50,
    before: str | None = None,
    continued: Annotated[bool, Parameter(negative="")] = False,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List the tenant's runs, newest first.

    Parameters
    ----------
    status
        Only runs with this status; may be given several times.
    definition
        Only runs of this definition.
    before
        Id of a run: only runs older than it, to continue a page.
    continued
        List also runs that other ones continue; without it a chain shows its latest run.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.session import connected, run_async

    if not 1 <= limit <= 1_000:
        raise ArgumentError("--limit", f"from 1 to 1000, found {limit}")

    async def work() -> int:
        async with connected(database, output.output) as client:
            heads = await client.runs(
                definition=definition,
                statuses=status,
                parent=which.parent,
                root=which.root,
                before=before,
                limit=limit,
                shows_continued=continued,
            )
        _print_heads(heads, output)
        return 0

    return run_async(_list_set_aside(limit, database, output) if which.set_aside else work())


async def _list_set_aside(limit: int, database: DatabaseOptions, output: OutputOptions) -> int:
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected

    async with connected(database, output.output) as client:
        marks = await client.runs_set_aside(limit=limit)
    cells = [(mark.run_id, mark.definition, timestamp(mark.at_us), mark.host_id, mark.reason) for mark in marks]
    print_rows(marks, output.output, ("run", "definition", "since (UTC)", "by host", "reason"), cells)
    return 0


def _print_heads(heads: "Sequence[Head]", output: OutputOptions) -> None:
    from ductor.cli.output import print_rows, timestamp

    cells = [
        (
            head.run_id,
            head.definition,
            f"{head.status}, {UNDONE_WORDS[head.compensated]}" if head.compensated else head.status,
            timestamp(head.started_at_us),
            timestamp(head.ended_at_us),
            head.error_type or "",
            head.key or "",
        )
        for head in heads
    ]
    columns = ("run", "definition", "status", "started (UTC)", "ended (UTC)", "error", "key")
    print_rows(heads, output.output, columns, cells)
