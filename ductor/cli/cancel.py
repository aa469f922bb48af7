"""`ductor cancel`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def cancel(
    run: str,
    /,
    *,
    by: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Ask a run to stop: handlers are told, deferred steps run, then it ends as cancelled.

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

    return send_control(run, "cancel", by=by, request_id=request_id, database=database, output=output)
