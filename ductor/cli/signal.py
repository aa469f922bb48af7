"""`ductor signal`."""

from ductor.cli.options import DatabaseOptions, JsonArgument, OutputOptions


def signal(
    run: str,
    name: str,
    /,
    *,
    payload: JsonArgument | None = None,
    by: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Send a signal to a run. It is kept until a step waits for it.

    Exit code 5 when the run has ended, or when a signal was sent under this request id before.

    Parameters
    ----------
    run
        Id of the run.
    name
        Name of the signal.
    payload
        JSON, `@file`, or `-` for standard input.
    by
        Who sends it, for the record.
    request_id
        Makes it idempotent: a second signal with this id sends nothing.
    """
    from ductor.cli.arguments import json_argument
    from ductor.cli.sending import send_message

    value = json_argument(payload, "--payload")
    return send_message(
        run,
        "signal",
        lambda handle: handle.signal(name, value, request_id=request_id, by=by),
        database=database,
        output=output,
    )
