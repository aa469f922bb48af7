"""What the commands that send something to a run have in common."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ductor.cli.failures import EXIT_CONFLICT, EXIT_OK
from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.cli.output import print_json, timestamp
from ductor.cli.session import connected, run_async

if TYPE_CHECKING:
    from ductor.handle import RunHandle
    from ductor.journal.records import MessageReceipt


def send_message(
    run: str,
    what: str,
    send: "Callable[[RunHandle], Awaitable[MessageReceipt]]",
    *,
    database: DatabaseOptions,
    output: OutputOptions,
) -> int:
    """Send something to a run and print its receipt. Exit code 5 for a duplicate, which sends nothing."""

    async def work() -> int:
        async with connected(database, output.output) as client:
            receipt = await send(client.run(run))
        if output.output == "table":
            print(described(what, receipt))
        else:
            print_json(receipt)
        return EXIT_CONFLICT if receipt.verdict == "duplicate" else EXIT_OK

    return run_async(work())


def described(what: str, receipt: "MessageReceipt") -> str:
    """A receipt in words."""
    name = f"{what} {receipt.message_id}"
    if receipt.verdict == "accepted":
        return f"{name} accepted"
    became = receipt.disposition or "waiting to be taken up"
    version = f" (version {receipt.version} of the journal)" if receipt.version is not None else ""
    return f"{name} was sent before, at {timestamp(receipt.at_us)}; it is {became}{version}"
