"""`ductor projection`: read models, and how they are put right."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ductor.cli.options import DatabaseOptions, OutputOptions

if TYPE_CHECKING:
    from ductor.client import Client


def list_projections(*, database: DatabaseOptions = DatabaseOptions(), output: OutputOptions = OutputOptions()) -> int:
    """List read models: how far behind each is, and why one stands still."""
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            found = await client.projections()
        cells = [
            (
                one.name,
                str(one.generation),
                one.status,
                str(one.applied_rows),
                str(one.lag_rows),
                timestamp(one.applied_at_us or None),
                one.blocked_by,
                f"run {one.failed_run_id}, version {one.failed_version}: {one.error}"
                if one.failed_run_id
                else one.error,
            )
            for one in found
        ]
        columns = ("projection", "generation", "status", "rows", "behind", "up to (UTC)", "held up by", "error")
        print_rows(found, output.output, columns, cells)
        return 1 if any(one.status == "failed" for one in found) else 0

    return run_async(work())


def rebuild(
    name: str, *, database: DatabaseOptions = DatabaseOptions(), output: OutputOptions = OutputOptions()
) -> int:
    """Make a read model anew beside the one that is read, which serves until then. A host that runs does the work.

    Parameters
    ----------
    name
        Which projection.
    """
    told = ("a rebuild begins", "a rebuild is under way")
    return _ask(name, lambda client: client.rebuild_projection(name), told, database, output)


def retry(name: str, *, database: DatabaseOptions = DatabaseOptions(), output: OutputOptions = OutputOptions()) -> int:
    """Let a projection that stands still try its event again.

    Parameters
    ----------
    name
        Which projection.
    """
    told = ("goes on", "does not stand still")
    return _ask(name, lambda client: client.retry_projection(name), told, database, output)


def _ask(
    name: str,
    ask: "Callable[[Client], Awaitable[bool]]",
    told: tuple[str, str],
    database: DatabaseOptions,
    output: OutputOptions,
) -> int:
    """Ask something of a projection, and say the first of what is told where that changes something."""
    from ductor.cli.output import say
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            changes = await ask(client)
        say(f"{name}: {told[0] if changes else told[1]}", output.output)
        return 0

    return run_async(work())
