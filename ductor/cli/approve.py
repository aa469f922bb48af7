"""`ductor approve`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def approve(
    run: str,
    step: str,
    /,
    *,
    by: str,
    group: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    comment: str | None = None,
    request_id: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Vote for what an approval step asks.

    Exit code 5 when the step does not wait for this person's vote, or has it already.

    Parameters
    ----------
    run
        Id of the run.
    step
        Ref of the step; `ductor inbox` lists both.
    by
        Who votes; must be among the approvers, or in one of their groups.
    group
        A group that the voter belongs to; may be given several times.
    comment
        For the record.
    request_id
        Makes the vote idempotent.
    """
    from ductor.cli.sending import send_message

    return send_message(
        run,
        "vote",
        lambda handle: handle.approve(step, by=by, groups=group, comment=comment, request_id=request_id),
        database=database,
        output=output,
    )
