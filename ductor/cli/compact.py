"""`ductor compact`."""

from ductor.cli.options import DatabaseOptions, OutputOptions, RequestOptions


def compact(
    run: str,
    /,
    *,
    request: RequestOptions = RequestOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let the history of an open run begin now: one row stands for all rows before it, which are removed.

    The run goes on as before. What it did before can't be looked at, replayed or computed again any more; export it
    first if somebody may want to. The request is durable once this returns; a host acts on it, and `ductor receipt`
    tells what came of it. Rows are removed in the background, once read models have seen them. Exit code 5 when the run
    has ended, or when it was asked under this request id before.

    Parameters
    ----------
    run
        Id of the run.
    """
    from ductor.cli.control import send_control

    return send_control(
        run,
        "compact",
        lambda handle: handle.compact(by=request.by, reason=request.reason, request_id=request.request_id),
        database=database,
        output=output,
    )
