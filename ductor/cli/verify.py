"""`ductor verify`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ductor.cli.options import DatabaseOptions, OutputOptions


def verify(
    run: str,
    /,
    *,
    receipt: Path | None = None,
    write_receipt: Annotated[bool, Parameter(negative="")] = False,
    recompute: Annotated[bool, Parameter(negative="")] = False,
    functions: str | None = None,
    database: DatabaseOptions = DatabaseOptions(),
    output: OutputOptions = OutputOptions(),
) -> int:
    """Prove that nothing of a run's record was changed: its hash chain, large values, definition and head.

    Exit code 1 when something does not hold.

    Parameters
    ----------
    run
        Id of the run, or an export file that holds it (`FILE`, or `FILE#RUN` for one of several).
    receipt
        Prove too that the record is what it was when this receipt was written.
    write_receipt
        Print a receipt of the run as it is now, one line of JSON, for somebody else to keep.
    recompute
        Compute every decision again, too.
    functions
        Where the functions are that expressions of the definition call: `module:attribute`.
    """
    from ductor.cli.arguments import ArgumentError
    from ductor.cli.output import print_json
    from ductor.cli.recorded import recorded_replay
    from ductor.cli.session import run_async
    from ductor.cli.verdicts import print_verification
    from ductor.handlers import load_functions
    from ductor.journal.receipts import read_receipt

    given = None
    if receipt is not None:
        try:
            given = read_receipt(receipt.read_bytes(), str(receipt))
        except OSError as error:
            raise ArgumentError("--receipt", f"can't read {receipt}: {error.strerror or error}") from error
    library = load_functions(functions) if functions is not None else None
    replay = run_async(recorded_replay(run, database, output.output, library))
    found = replay.verify(recompute=recompute, receipt=given)
    if write_receipt and found.holds:
        print_json(replay.receipt())
        return 0
    return print_verification(found, output.output)
