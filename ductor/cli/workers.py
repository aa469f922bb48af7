"""`ductor workers`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def workers(
    *,
    queue: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """List the workers that live, by their heartbeats, with the queues that they serve and the handlers that they have.

    Parameters
    ----------
    queue
        Only those that serve this queue.
    """
    from ductor.cli.output import print_rows, timestamp
    from ductor.cli.session import connected, run_async

    async def work() -> int:
        async with connected(database, output.output) as client:
            found = [worker for worker in await client.workers() if queue is None or queue in worker.queues]
        cells = [
            (
                worker.worker_id,
                ", ".join(worker.queues),
                timestamp(worker.started_at_us),
                timestamp(worker.heartbeat_at_us),
                ", ".join(worker.tasks),
            )
            for worker in found
        ]
        print_rows(found, output.output, ("worker", "queues", "started (UTC)", "heartbeat (UTC)", "handlers"), cells)
        return 0

    return run_async(work())
