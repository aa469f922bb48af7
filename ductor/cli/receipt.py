"""`ductor receipt`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def receipt(
    run: str,
    id_: str | None = None,
    /,
    *,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Tell what became of something that was sent to a run or asked of it.

    Exit code 3 when there is nothing of this id.

    Parameters
    ----------
    run
        Id of the run; or, alone, the bulk id of a request to many runs, which tells how far it has come.
    id_
        The request id, as the command that sent it printed it.
    """
    from ductor.cli.output import print_json, timestamp
    from ductor.cli.sending import described
    from ductor.cli.session import connected, run_async
    from ductor.errors import RequestNotFoundError

    async def bulk_work() -> int:
        async with connected(database, output.output) as client:
            bulk = await client.bulk(run)
        if bulk is None:
            raise RequestNotFoundError("", run)
        if output.output == "table":
            scope = f"of definition {bulk.definition}" if bulk.definition else "of the tenant"
            end = f"done at {timestamp(bulk.finished_at_us)}" if bulk.finished_at_us else "under way"
            print(f"{bulk.kind} of the runs {scope}: {bulk.requested} asked, {end}")
        else:
            print_json(bulk)
        return 0

    async def work(id_: str) -> int:
        async with connected(database, output.output) as client:
            handle = client.run(run)
            await handle.status()  # another tenant's run is not found
            message, control = await handle.receipt(id_), await handle.control(id_)
        if message is None and control is None:
            raise RequestNotFoundError(run, id_)
        if output.output != "table":
            print_json(message or control)
        elif message is not None:
            print(described("message", message))
        elif control is not None:
            became = control.disposition or "waiting to be taken up"
            print(f"{control.kind} {id_} is {became}{f': {control.outcome}' if control.outcome else ''}")
        return 0

    return run_async(bulk_work() if id_ is None else work(id_))
