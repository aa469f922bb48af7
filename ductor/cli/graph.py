"""`ductor graph`."""

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions

if TYPE_CHECKING:
    from ductor.graph import WorkflowGraph


def graph(
    what: str,
    /,
    *,
    output: Annotated[Literal["text", "svg"], Parameter(name=["--output", "-o"])] = "text",
    out: Path | None = None,
    definition: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
) -> int:
    """Draw a definition; or a run, coloured by what its steps did.

    Parameters
    ----------
    what
        A definition file, the name of a published definition, or the id of a run: of one that carries out an inline
        body that is drawn.
    output
        `text`, or `svg`, a picture.
    out
        File to write instead of standard output.
    definition
        Which definition of a file that holds several.
    """
    from ductor.graph import render_svg, render_text

    drawn = _graph_of(what, definition, database)
    picture = render_text(drawn) + "\n" if output == "text" else render_svg(drawn)
    if out is None:
        print(picture, end="")
    else:
        out.write_text(picture, encoding="utf-8")
    return 0


def _graph_of(what: str, definition: str | None, database: DatabaseOptions) -> "WorkflowGraph":
    from ductor.cli.session import run_async

    if Path(what).exists():
        return _of_file(Path(what), definition)
    try:
        run_id = str(uuid.UUID(what))
    except ValueError:
        return run_async(_of_published(what, database))
    return run_async(_of_run(run_id, database))


def _of_file(path: Path, name: str | None) -> "WorkflowGraph":
    from ductor.cli.arguments import ArgumentError
    from ductor.definition_files import read_definitions
    from ductor.graph import graph_of

    compiled = {one.compiled.manifest.name: one.compiled for one in read_definitions(path)}
    if name is None and len(compiled) == 1:
        name = next(iter(compiled))
    if name not in compiled:
        held = ", ".join(sorted(compiled))
        raise ArgumentError("--definition", f"{path} holds {held}; say which with `--definition NAME`")
    return graph_of(compiled[name].manifest)


async def _of_published(name: str, database: DatabaseOptions) -> "WorkflowGraph":
    from ductor.cli.session import connected
    from ductor.definitions.manifest import decode_manifest
    from ductor.graph import graph_of

    async with connected(database) as client:
        record = await client.engine.published_definition(name, tenant=client.tenant)
    return graph_of(decode_manifest(record.manifest))


async def _of_run(run_id: str, database: DatabaseOptions) -> "WorkflowGraph":
    from ductor.actors.errors import ManifestMissingError
    from ductor.cli.session import connected
    from ductor.definitions.manifest import decode_manifest
    from ductor.definitions.program_bodies import carried_out
    from ductor.graph import graph_of, marks_of

    async with connected(database) as client:
        handle = client.run(run_id)
        view, history = await handle.status(), await handle.history()
        record = await client.engine.store.manifest(view.manifest_hash)
    if record is None:
        raise ManifestMissingError(view.manifest_hash)
    manifest = decode_manifest(record.manifest)
    body = view.definition.removeprefix(manifest.name).removeprefix("/")  # a run of a body is named `order/ship`
    marks = marks_of(view.run_id, view.status, [(row.at_us, row.events) for row in history])
    return graph_of(carried_out(manifest, body), marks)
