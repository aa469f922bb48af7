"""What the commands have in common that ask something of one run, or of many."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ductor.cli.arguments import ArgumentError
from ductor.cli.failures import EXIT_CONFLICT, EXIT_OK
from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.cli.output import print_json, say
from ductor.cli.session import connected, run_async

if TYPE_CHECKING:
    from ductor.actors.bulk_controls import BulkReceipt
    from ductor.client import Client
    from ductor.handle import RunHandle
    from ductor.journal.records import ControlReceipt


def control_one_or_many(
    kind: str,
    run: str | None,
    definition: str | None,
    *,
    is_all: bool,
    ask: "Callable[[RunHandle], Awaitable[ControlReceipt]]",
    ask_all: "Callable[[Client], Awaitable[BulkReceipt]]",
    database: DatabaseOptions,
    output: OutputOptions,
) -> int:
    """Ask one run, or all open runs of a definition or of the tenant, and print the receipt."""
    if (run is not None) + (definition is not None) + is_all != 1:
        raise ArgumentError(kind, "give a run, or `--definition NAME`, or `--all`: exactly one of them")
    if run is not None:
        return send_control(run, kind, ask, database=database, output=output)

    async def work() -> int:
        async with connected(database, output.output) as client:
            receipt = await ask_all(client)
        if output.output == "table":
            print(f"{kind} of all runs {receipt.verdict} (bulk {receipt.bulk_id})")
        else:
            print_json(receipt)
        return EXIT_CONFLICT if receipt.verdict == "duplicate" else EXIT_OK

    return run_async(work())


def send_control(
    run: str,
    kind: str,
    ask: "Callable[[RunHandle], Awaitable[ControlReceipt]]",
    *,
    database: DatabaseOptions,
    output: OutputOptions,
) -> int:
    """Send a request to a run and print its receipt. Exit code 5 for a duplicate, which asks nothing."""

    async def work() -> int:
        async with connected(database, output.output) as client:
            receipt = await ask(client.run(run))
        if output.output == "table":
            print(f"{kind} {receipt.verdict} (request {receipt.request_id})")
            say(f"`ductor receipt {run} {receipt.request_id}` tells what has become of it")
        else:
            print_json(receipt)
        return EXIT_CONFLICT if receipt.verdict == "duplicate" else EXIT_OK

    return run_async(work())
