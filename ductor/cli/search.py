"""`ductor search`.

It stands beside `ductor runs`, which lists heads: those are exact at once and need no host. A search reads a model that
follows the journal, and pages by another key.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputFormat, OutputOptions
from ductor.definitions.values import JsonValue
from ductor.journal.events import RunStatus

if TYPE_CHECKING:
    from ductor.projections.search import FoundRun


def search(  # noqa: PLR0913 - each is an option, and all have defaults
    *text: str,
    where: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    status: Annotated[tuple[RunStatus, ...], Parameter(negative="")] = (),
    continued: Annotated[bool, Parameter(negative="", help="Also runs that others continue.")] = False,
    definition: Annotated[str | None, Parameter(help="Only runs of this definition.")] = None,
    since: str | None = None,
    until: str | None = None,
    limit: Annotated[int, Parameter(help="How many at most.")] = 50,
    after: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Find runs among many, newest first; of those that continue each other the latest.

    Parameters
    ----------
    text
        Words that must all occur, or begin a word: in the definition's name, the key, search attributes, the error.
    where
        A search attribute and its value, as `customer=c-7`, `amount=12`, or `'order="12"'` for text; several times.
    status
        Only runs with this status; may be given several times.
    since
        Only runs started from then on: so long ago, as `2h`, a day as `2026-01-31` (UTC), or a moment (RFC 3339).
    until
        Only runs started before then, in the same forms.
    after
        Where the page before ended, as it says, to continue it.
    """
    import msgspec

    from ductor.cli.arguments import time_bounds, times_between
    from ductor.cli.output import say
    from ductor.cli.session import connected, run_async
    from ductor.projections.search import RunSearch, check

    bounds = time_bounds(since, until)
    wanted = RunSearch(
        definition=definition,
        statuses=status,
        shows_continued=continued,
        attributes=dict(_attribute(one) for one in where),
        text=" ".join(text),
        after=after,
        limit=limit,
    )
    check(wanted)

    async def work() -> int:
        async with connected(database, output.output) as client:
            since_us, until_us = times_between(bounds, await client.engine.store.now_us())
            in_time = msgspec.structs.replace(wanted, started_after_us=since_us, started_before_us=until_us)
            page = await client.search_runs(in_time)
        _print(page.runs, output.output)
        if page.next is not None:
            say(f"there are more: --after {page.next}", output.output)
        return 0

    return run_async(work())


def _print(runs: "Sequence[FoundRun]", output: OutputFormat) -> None:
    from ductor.cli.output import json_text, print_rows, timestamp

    cells = [
        (
            run.run_id,
            run.definition,
            run.status,
            timestamp(run.started_at_us),
            timestamp(run.ended_at_us),
            run.error_type or "",
            run.key or "",
            ", ".join(
                f"{name}={value if isinstance(value, str) else json_text(value)}"
                for name, value in run.search_attributes.items()
            ),
        )
        for run in runs
    ]
    columns = ("run", "definition", "status", "started (UTC)", "ended (UTC)", "error", "key", "attributes")
    print_rows(runs, output, columns, cells)


def _attribute(text: str) -> tuple[str, JsonValue]:
    """A name and its value: JSON where it is, else text."""
    import msgspec

    from ductor.cli.arguments import ArgumentError

    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ArgumentError("--where", f"NAME=VALUE, found {text!r}")
    try:
        decoded: JsonValue = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value
    return name, decoded
