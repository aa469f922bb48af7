"""Receipts: what a run's journal was at a moment, in a few bytes that somebody else keeps.

The last hash of a chain stands for every row before it, and for the large values that these name. Whoever has a receipt
can tell later, of the database or of an export, whether anything of that was changed since. A run that was redriven has
a new *epoch*; a receipt speaks of one.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from ductor.journal.errors import ReceiptFormatError
from ductor.journal.events import RunStatus
from ductor.journal.records import Transition
from ductor.journal.state import RunState

RECEIPT_FORMAT: Final = 1

MAX_RECEIPT_BYTES: Final = 64 << 10
"""A file that is larger is no receipt."""


class RunReceipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run's journal was.

    Attributes:
        version: its last row then.
        hash: that row's chain hash, hexadecimal.
        outcome: the run's status after it.
        epoch: how often the run had been redriven.
        at_us: time of that row.
    """

    receipt: int
    run_id: str
    manifest_hash: str
    version: int
    hash: str
    outcome: RunStatus
    epoch: int
    at_us: int


_decode = msgspec.json.Decoder(RunReceipt).decode


def receipt_of(state: RunState) -> RunReceipt:
    """The receipt of a run as it stands in this state."""
    return RunReceipt(
        receipt=RECEIPT_FORMAT,
        run_id=state.run_id,
        manifest_hash=state.manifest_hash,
        version=state.version,
        hash=state.last_hash.hex(),
        outcome=state.status,
        epoch=state.reopened_count,
        at_us=state.at_us,
    )


def read_receipt(text: bytes, file: str) -> RunReceipt:
    """A receipt out of a file. Raises ReceiptFormatError."""
    if len(text) > MAX_RECEIPT_BYTES:
        raise ReceiptFormatError(file, f"it has more than {MAX_RECEIPT_BYTES} bytes")
    try:
        receipt = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReceiptFormatError(file, str(error)) from error
    if receipt.receipt != RECEIPT_FORMAT:
        reason = f"its format is {receipt.receipt}, this version of ductor reads {RECEIPT_FORMAT}"
        raise ReceiptFormatError(file, reason)
    return receipt


def receipt_problem(receipt: RunReceipt, rows: Sequence[Transition], state: RunState) -> str:
    """Why the receipt does not fit a journal whose chain holds; empty when it does.

    Args:
        rows: the whole journal.
        state: what its first `receipt.version` rows give.
    """
    if receipt.run_id != state.run_id:
        return f"the receipt is of run {receipt.run_id}"
    last_version = rows[-1].version if rows else 0
    if last_version < receipt.version:
        return f"the receipt is of version {receipt.version}, and the journal ends at {last_version}"
    now = receipt_of(state)
    for name in RunReceipt.__struct_fields__:
        told, found = getattr(receipt, name), getattr(now, name)
        if told != found:
            return f"at version {receipt.version} the receipt's {name} is {told}, the journal's {found}"
    return ""
