"""`ductor cancel`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions, RequestOptions


def cancel(
    run: str | None = None,
    /,
    *,
    definition: str | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative="")] = False,
    request: RequestOptions = RequestOptions(),
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Ask a run to stop: handlers are told, deferred steps run, then it ends as cancelled.

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
        "cancel",
        run,
        definition,
        is_all=all_,
        ask=lambda handle: handle.cancel(by=request.by, reason=request.reason, request_id=request.request_id),
        ask_all=lambda client: client.cancel_all(
            definition, by=request.by, reason=request.reason, request_id=request.request_id
        ),
        database=database,
        output=output,
    )
