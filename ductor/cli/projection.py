"""`ductor projection`: read models, and how they are put right."""

from ductor.cli.options import DatabaseOptions, OutputOptions


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
    from ductor.cli.output import say
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            begins = await client.rebuild_projection(name)
        say(f"{name}: {'a rebuild begins' if begins else 'a rebuild is under way'}", output.output)
        return 0

    return run_async(work())


def retry(name: str, *, database: DatabaseOptions = DatabaseOptions(), output: OutputOptions = OutputOptions()) -> int:
    """Let a projection that stands still try its event again.

    Parameters
    ----------
    name
        Which projection.
    """
    from ductor.cli.output import say
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            goes_on = await client.retry_projection(name)
        say(f"{name}: {'goes on' if goes_on else 'does not stand still'}", output.output)
        return 0

    return run_async(work())
