"""`ductor compensate`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def compensate(
    run: str,
    /,
    *,
    by: str = "",
    reason: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let a run that has ended undo what it has done and not undone. One that had completed ends as cancelled.

    The request is durable once this returns; a host acts on it, and `ductor receipt` tells what came of it.

    Parameters
    ----------
    run
        Id of the run.
    by
        Who asks, for the record.
    reason
        Why, for the record.
    request_id
        Makes the request idempotent.
    """
    from ductor.cli.control import send_control

    return send_control(
        run,
        "compensate",
        lambda handle: handle.compensate(by=by, reason=reason, request_id=request_id),
        database=database,
        output=output,
    )
