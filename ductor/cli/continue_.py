"""`ductor continue`."""

from ductor.cli.options import DatabaseOptions, OutputOptions, RequestOptions


def continue_(
    run: str,
    /,
    *,
    request: RequestOptions = RequestOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let a run be continued as a new one, from the beginning of its definition, with its context.

    What is under way may finish first, and what waits in the run's inbox goes along. The request is durable once this
    returns; a host acts on it, and `ductor receipt` tells what came of it. Exit code 5 when the run has ended, or when
    it was asked under this request id before.

    Parameters
    ----------
    run
        Id of the run, or of any run of its chain.
    """
    from ductor.cli.control import send_control

    return send_control(
        run,
        "continue",
        lambda handle: handle.continue_as_new(by=request.by, reason=request.reason, request_id=request.request_id),
        database=database,
        output=output,
    )
