"""`ductor hosts`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def hosts(
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List the hosts that live, by their heartbeats, with the handlers that they have."""
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            found = await client.hosts()
        cells = [
            (
                host.host_id,
                "draining" if host.is_draining else "up",
                timestamp(host.started_at_us),
                timestamp(host.heartbeat_at_us),
                ", ".join(host.tasks),
            )
            for host in found
        ]
        print_rows(found, output.output, ("host", "state", "started (UTC)", "heartbeat (UTC)", "handlers"), cells)
        return 0

    return run_async(work())
