"""`ductor import`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def import_(
    file: Path,
    /,
    *,
    as_closed: Annotated[bool, Parameter(negative="")] = False,
    functions: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Bring the runs of an export file into the database, to be looked at. They are not carried on.

    Nothing is written unless everything can be. Runs that are there already stay as they are; doing it again changes
    nothing. Runs keep the tenant that they had.

    Parameters
    ----------
    file
        What `ductor export` wrote.
    as_closed
        Terminate the copies of runs that have not ended, instead of refusing the file.
    functions
        Where the functions are that expressions of the definitions call: `module:attribute`.
    """
    from ductor.actors.importing import Importer
    from ductor.cli.output import print_rows, progress
    from ductor.cli.session import connected, run_async
    from ductor.handlers import load_functions
    from ductor.journal.ids import SystemIds
    from ductor.replay import export_lines

    library = load_functions(functions) if functions is not None else None

    async def work() -> int:
        async with connected(database, output.output) as client:
            importer = Importer(
                client.engine.store, str(file), ids=SystemIds(), closes_open=as_closed, functions=library
            )
            with progress("importing", output.output):
                found = await importer.run(lambda: export_lines(file))
        cells = [
            (
                one.run_id,
                one.tenant,
                one.definition,
                one.status,
                str(one.rows),
                "imported as closed" if one.was_closed else "imported" if one.is_new else "there already",
            )
            for one in found
        ]
        print_rows(found, output.output, ("run", "tenant", "definition", "status", "rows", ""), cells)
        return 0

    return run_async(work())
