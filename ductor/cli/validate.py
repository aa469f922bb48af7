"""`ductor validate`."""

from pathlib import Path
from typing import Any

from ductor.cli.options import OutputOptions


def validate(files: list[Path], /, *, output: OutputOptions = OutputOptions()) -> int:
    """Check definition files and folders, and report every problem of all of them at once.

    Parameters
    ----------
    files
        Definition files, or folders of them.
    """
    from ductor.actors.steps import RUNNABLE_TYPES
    from ductor.cli.output import print_rows, say
    from ductor.definition_files import read_definitions
    from ductor.definitions.unsupported import refuse_unsupported
    from ductor.handlers import needed_handlers

    compiled = [one.compiled for one in read_definitions(*files)]
    rows: list[dict[str, Any]] = [
        {
            "name": one.manifest.name,
            "version": one.manifest.version,
            "manifest_hash": one.manifest_hash,
            "steps": len(one.manifest.steps) + len(one.manifest.defer),
            "handlers": sorted(needed_handlers(one.manifest)),
            "cannot_run": [str(problem) for problem in refuse_unsupported(one, RUNNABLE_TYPES)],
        }
        for one in compiled
    ]
    cells = [(str(row["name"]), str(row["version"]), str(row["steps"]), str(row["manifest_hash"])[:12]) for row in rows]
    print_rows(rows, output.output, ("name", "version", "steps", "hash"), cells)
    if output.output == "table":
        for row in rows:
            for problem in row["cannot_run"]:
                say(f"note: valid, but it can't be published yet: {problem}")
    return 0
