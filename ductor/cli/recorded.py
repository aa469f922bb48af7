"""Which recorded run a command is about: one of the database, or one of an export file."""

from pathlib import Path
from typing import TYPE_CHECKING

from ductor.cli.options import DatabaseOptions, OutputFormat

if TYPE_CHECKING:
    from ductor.definitions.expressions import FunctionLibrary
    from ductor.replay import Replay


def is_file(run: str) -> bool:
    """Whether this names a run of a file: `FILE`, or `FILE#RUN` for one of several."""
    return Path(run.partition("#")[0]).is_file()


async def recorded_replay(
    run: str, database: DatabaseOptions, output: OutputFormat, functions: "FunctionLibrary | None" = None
) -> "Replay":
    """The run that a command names. A file is read without any database.

    Raises:
        RunNotExportedError, RunTooLargeError: the database has no such run, or too much of it.
        ExportFormatError: the file is no whole export, or holds several runs and none is named.
    """
    from ductor.cli.session import connected
    from ductor.replay import replay_file

    if is_file(run):
        file, _, run_id = run.partition("#")
        return replay_file(file, run_id or None, functions=functions)
    async with connected(database, output) as client:
        return await client.replay(run, functions=functions)
