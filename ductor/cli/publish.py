"""`ductor publish`."""

from pathlib import Path

from ductor.cli.options import DatabaseOptions, OutputOptions


def publish(
    files: list[Path],
    /,
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Publish definitions. All are checked first; with a problem in any, nothing is published.

    Parameters
    ----------
    files
        Definition files, or folders of them.
    """
    from ductor.cli.output import print_rows
    from ductor.cli.session import connected, run_async
    from ductor.definition_files import read_definitions

    found = read_definitions(*files)

    async def work() -> int:
        async with connected(database, output.output) as client:
            published = await client.publish(*found)
        rows = [{"name": one.name, "version": one.version, "manifest_hash": one.manifest_hash} for one in published]
        cells = [(one.name, one.version, one.manifest_hash[:12]) for one in published]
        print_rows(rows, output.output, ("name", "version", "hash"), cells)
        return 0

    return run_async(work())
