"""`ductor terminate`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def terminate(
    run: str,
    /,
    *,
    by: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """End a run at once: nothing more of it runs, deferred steps neither.

    The request is durable once this returns; a host acts on it. Exit code 5 when the run has ended.

    Parameters
    ----------
    run
        Id of the run.
    by
        Who asks, for the record.
    request_id
        Makes the request idempotent.
    """
    from ductor.cli.control import send_control

    return send_control(run, "terminate", by=by, request_id=request_id, database=database, output=output)
