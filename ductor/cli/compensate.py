"""`ductor compensate`."""

from ductor.cli.options import DatabaseOptions, OutputOptions, RequestOptions


def compensate(
    run: str,
    /,
    *,
    request: RequestOptions = RequestOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let a run that has ended undo what it has done and not undone. One that had completed ends as cancelled.

    The request is durable once this returns; a host acts on it, and `ductor receipt` tells what came of it.

    Parameters
    ----------
    run
        Id of the run.
    """
    from ductor.cli.control import send_control

    return send_control(
        run,
        "compensate",
        lambda handle: handle.compensate(by=request.by, reason=request.reason, request_id=request.request_id),
        database=database,
        output=output,
    )
