"""`ductor redrive`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, JsonArgument, OutputOptions


def redrive(
    run: str,
    /,
    *,
    from_: Annotated[tuple[str, ...], Parameter(name="--from", negative="")] = (),
    input_: Annotated[JsonArgument | None, Parameter(name="--input")] = None,
    by: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Let a run that has ended go on from where it failed. What succeeded is kept.

    The request is durable once this returns; a host acts on it, and `ductor receipt` tells what came of it.

    Parameters
    ----------
    run
        Id of the run.
    from_
        A step to do anew, with all that comes after it; may be given several times. Those that failed without it.
    input_
        Input of the one task step that is done anew: JSON, `@file`, or `-` for standard input.
    by
        Who asks, for the record.
    request_id
        Makes the request idempotent.
    """
    import msgspec

    from ductor.cli.arguments import json_argument
    from ductor.cli.control import send_control

    edited = msgspec.UNSET if input_ is None else json_argument(input_, "--input")
    return send_control(
        run,
        "redrive",
        lambda handle: handle.redrive(from_, input=edited, by=by, request_id=request_id),
        database=database,
        output=output,
    )
