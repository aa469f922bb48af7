"""`ductor export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.cli.selection import RunSelection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import BinaryIO

    from ductor.client import Client


def export(
    runs: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    /,
    *,
    file: Annotated[Path, Parameter(name=["--file", "-f"], allow_leading_hyphen=True)],
    selection: RunSelection = RunSelection(),
    follow: bool = True,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Write runs to a file, complete and exact: for replay elsewhere, for `ductor import`, for keeping.

    Parameters
    ----------
    runs
        Ids of runs; without any, those that fit the filters.
    file
        Where to; it is there once it is whole. `-` is standard output.
    follow
        With a run that others continue, or that continues others, write all runs of its chain; with `--no-follow` the
        very runs that are named or fit.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_json, progress, say
    from ductor.cli.session import connected, run_async

    if runs and selection.is_given:
        raise ArgumentError("--definition, --status, --since, --limit", "they go with no ids of runs")

    async def work() -> int:
        async with connected(database, output.output) as client:
            with progress("exporting", output.output):
                if str(file) == "-":
                    import sys

                    return await _write(client, _run_ids(client, runs, selection, follow), sys.stdout.buffer)
                return await _write_file(client, _run_ids(client, runs, selection, follow), file)

    count = run_async(work())
    if str(file) != "-":
        say(f"{count} runs written to {file}", output.output)
        if output.output != "table":
            print_json({"file": str(file), "runs": count})
    return 0


def _run_ids(client: "Client", runs: tuple[str, ...], selection: RunSelection, follow: bool) -> "AsyncIterator[str]":
    from ductor.cli.selection import selected_run_ids, with_chains

    run_ids = _named(runs) if runs else selected_run_ids(client, selection)
    return with_chains(client, run_ids) if follow else run_ids


async def _named(runs: tuple[str, ...]) -> "AsyncIterator[str]":
    for run_id in dict.fromkeys(runs):
        yield run_id


async def _write_file(client: "Client", run_ids: "AsyncIterator[str]", file: Path) -> int:
    """Under another name first: a file of this name is always whole."""
    from ductor.cli.arguments import ArgumentError

    unfinished = file.with_name(file.name + ".unfinished")
    try:
        with unfinished.open("wb") as opened:
            count = await _write(client, run_ids, opened)
        unfinished.replace(file)
    except OSError as error:
        raise ArgumentError("--file", f"can't write {file}: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


async def _write(client: "Client", run_ids: "AsyncIterator[str]", into: "BinaryIO") -> int:
    from ductor.journal.exporting import Exporter

    exporter = Exporter(client.engine.store, client.tenant)
    into.write(await exporter.header())
    async for run_id in run_ids:
        async for line in exporter.run(run_id):
            into.write(line)
    into.write(exporter.end())
    into.flush()
    return exporter.runs
