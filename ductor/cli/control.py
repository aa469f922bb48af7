"""What `cancel` and `terminate` have in common."""

from typing import Literal

from ductor.cli.options import DatabaseOptions, OutputOptions
from ductor.cli.output import print_json
from ductor.cli.session import connected, run_async


def send_control(
    run: str,
    kind: Literal["cancel", "terminate"],
    *,
    by: str,
    request_id: str | None,
    database: DatabaseOptions,
    output: OutputOptions,
) -> int:
    """Send a request to a run and print its receipt."""

    async def work() -> int:
        async with connected(database, output.output) as client:
            handle = client.run(run)
            ask = handle.cancel if kind == "cancel" else handle.terminate
            receipt = await ask(by=by, request_id=request_id)
        if output.output == "table":
            print(f"{kind} {receipt.verdict} (request {receipt.request_id})")
        else:
            print_json(receipt)
        return 0

    return run_async(work())
