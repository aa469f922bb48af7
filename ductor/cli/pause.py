"""`ductor pause`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions, RequestOptions


def pause(
    run: str | None = None,
    /,
    *,
    definition: str | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False,
    request: RequestOptions = RequestOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let a run stand still: nothing starts and timers stop counting; attempts in flight go on.

    The request is durable once this returns; a host acts on it, and `ductor receipt` tells what came of it. Exit code 5
    when the run has ended, or when it was asked under this request id before.

    Parameters
    ----------
    run
        Id of the run.
    definition
        Instead of one run: all open runs of this definition.
    all_
        Instead of one run: all open runs of the tenant.
    """
    from ductor.cli.control import control_one_or_many

    return control_one_or_many(
        "pause",
        run,
        definition,
        is_all=all_,
        ask=lambda handle: handle.pause(by=request.by, reason=request.reason, request_id=request.request_id),
        ask_all=lambda client: client.pause_all(
            definition, by=request.by, reason=request.reason, request_id=request.request_id
        ),
        database=database,
        output=output,
    )
