"""`ductor reply`."""

from ductor.cli.options import DatabaseOptions, JsonArgument, OutputOptions


def reply(
    run: str,
    step: str,
    /,
    *,
    payload: JsonArgument,
    by: str = "",
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Answer an interaction step.

    Exit code 5 when the step does not ask, or when the reply does not fit: then every problem of it is named.

    Parameters
    ----------
    run
        Id of the run.
    step
        Ref of the step; `ductor inbox` lists both.
    payload
        The reply: JSON, `@file`, or `-` for standard input.
    by
        Who replies, for the record.
    request_id
        Makes it idempotent.
    """
    from ductor.cli.arguments import json_argument
    from ductor.cli.sending import send_message

    value = json_argument(payload, "--payload")
    return send_message(
        run,
        "reply",
        lambda handle: handle.reply(step, value, by=by, request_id=request_id),
        database=database,
        output=output,
    )
