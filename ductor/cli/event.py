"""`ductor event`."""

from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, JsonArgument, OutputOptions


def event(
    name: str,
    /,
    *,
    payload: JsonArgument | None = None,
    id_: Annotated[str | None, Parameter(name="--id")] = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Publish an event: for runs that wait for it, and for definitions that it triggers.

    Exit code 5 when an event was published under this id before.

    Parameters
    ----------
    name
        Name of the event.
    payload
        JSON, `@file`, or `-` for standard input.
    id_
        Makes it idempotent: a second event with this id changes nothing.
    """
    from ductor.cli.arguments import json_argument
    from ductor.cli.failures import EXIT_CONFLICT, EXIT_OK
    from ductor.cli.output import print_json, timestamp
    from ductor.cli.session import connected, run_async

    value = json_argument(payload, "--payload")

    async def work() -> int:
        async with connected(database, output.output) as client:
            receipt = await client.publish_event(name, value, event_id=id_)
        is_new = receipt.verdict == "accepted"
        if output.output != "table":
            print_json(receipt)
        elif is_new:
            print(f"event {receipt.event_id} published")
        else:
            print(f"event {receipt.event_id} was published before, at {timestamp(receipt.published_at_us)}")
        return EXIT_OK if is_new else EXIT_CONFLICT

    return run_async(work())
