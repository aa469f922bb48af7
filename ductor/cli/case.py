"""`ductor case`."""

from ductor.cli.options import DatabaseOptions, OutputOptions


def case(  # noqa: PLR0913 - each is a choice of its own, and all but three have defaults
    run: str,
    step: str,
    /,
    *,
    by: str,
    status: str | None = None,
    assignee: str | None = None,
    comment: str | None = None,
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Work on the case of a human_loop step. The run goes on when the case has the status that it waits for.

    Exit code 5 when the step has no open case.

    Parameters
    ----------
    run
        Id of the run.
    step
        Ref of the step; `ductor inbox` lists both.
    by
        Who does it.
    status
        The case's new status.
    assignee
        Who is to work on it from now on.
    comment
        What there is to say.
    request_id
        Makes it idempotent.
    """
    from ductor.cli.sending import send_message

    return send_message(
        run,
        "case work",
        lambda handle: handle.case(
            step, by=by, status=status, assignee=assignee, comment=comment, request_id=request_id
        ),
        database=database,
        output=output,
    )
