"""`ductor verify-history`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.cli.selection import RunSelection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ductor.history_verifier import HistoryFinding
    from ductor.journal.recorded import RecordedRun

VALUE_WIDTH = 500


def verify_history(
    *,
    against: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    runs: Annotated[tuple[Path, ...], Parameter(negative="")] = (),
    functions: str | None = None,
    selection: RunSelection = RunSelection(),
    follow: bool = True,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Check recorded runs under the definitions and the software at hand; tell the first event of each that differs.

    Made for continuous integration: exit code 1 when any differs, 3 when there was nothing to check.

    Parameters
    ----------
    against
        Definition files or folders. A run is checked under the definition of its name. Without any, each run is checked
        under its own, which puts the software alone on trial.
    runs
        Export files; without any, the runs of the database that fit the filters.
    functions
        Where the functions are that expressions of the definitions call: `module:attribute`.
    follow
        With a run that others continue, or that continues others, check all runs of its chain; with `--no-follow` the
        very runs that fit.
    """
    from ductor.cli.failures import EXIT_FAILED, EXIT_OK
    from ductor.cli.output import print_json, progress, say
    from ductor.cli.session import run_async
    from ductor.definition_files import read_definitions
    from ductor.handlers import load_functions
    from ductor.history_verifier import HistoryVerifier

    _check(runs, selection)
    library = load_functions(functions) if functions is not None else None
    verifier = HistoryVerifier(read_definitions(*against) if against else (), functions=library)
    differing: list[HistoryFinding] = []
    counts = {"runs": 0, "rows": 0, "not_covered": 0}

    async def work() -> None:
        async for run in _recorded(runs, selection, follow, database, output):
            if not verifier.covers(run):
                counts["not_covered"] += 1
                continue
            found = verifier.check(run)
            counts["runs"] += 1
            counts["rows"] += found.rows
            if not found.holds:
                differing.append(found)
                if output.output != "json":
                    _print(found, output)

    with progress("checking", output.output):
        run_async(work())
    if output.output == "json":
        print_json({**counts, "differing": differing})
    say(f"{counts['runs']} runs ({counts['rows']} rows) checked, {len(differing)} differ", output.output)
    _tell_of_others(counts["runs"], counts["not_covered"], output)
    return EXIT_FAILED if differing else EXIT_OK


def _check(runs: tuple[Path, ...], selection: RunSelection) -> None:
    from ductor.cli.arguments import ArgumentError

    if runs and selection.is_given:
        filters = "--definition, --status, --since, --limit"
        raise ArgumentError(filters, "they choose runs of the database, not of `--runs`")


def _tell_of_others(checked: int, not_covered: int, output: OutputOptions) -> None:
    """Say what was not checked. Raises NothingCheckedError where nothing was."""
    from ductor.cli.output import say
    from ductor.errors import NothingCheckedError

    if not_covered:
        say(f"{not_covered} runs are of other definitions, and were not checked", output.output)
    if not checked:
        raise NothingCheckedError(not_covered)


async def _recorded(
    files: tuple[Path, ...], selection: RunSelection, follow: bool, database: DatabaseOptions, output: OutputOptions
) -> "AsyncIterator[RecordedRun]":
    from ductor.cli.selection import selected_run_ids, with_chains
    from ductor.cli.session import connected
    from ductor.replay import replay_files

    if files:
        for replay in replay_files(*files):
            yield replay.run
        return
    async with connected(database, output.output) as client:
        run_ids = selected_run_ids(client, selection)
        async for run_id in with_chains(client, run_ids) if follow else run_ids:
            yield (await client.replay(run_id)).run


def _print(found: "HistoryFinding", output: OutputOptions) -> None:
    from ductor.cli.output import json_text, print_json

    if output.output == "jsonl":
        print_json(found)
        return
    where = "" if found.version is None else f", row {found.version}"
    event = "" if found.event_index is None else f", event {found.event_index}"
    verdict = f" ({found.verdict})" if found.verdict else ""
    print(f"run {found.run_id} of {found.definition}{where}{event}{verdict}")
    for reason in found.reasons:
        print(f"  {reason}")
    if found.event_index is not None:
        print(f"  recorded: {json_text(found.expected, VALUE_WIDTH)}")
        print(f"  now:      {json_text(found.actual, VALUE_WIDTH)}")
