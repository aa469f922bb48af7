"""What a child run tells its parent, as a message in the parent's inbox.

The child's own commit writes the message, so what is told is as durable as what it tells of. Its id is derived from the
child's: the end of a child is told once, whoever writes it and however often. The report is the message's payload; a
large output stands beside the parent's journal, and the message's `payload_ref` names it.
"""

from typing import Final

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.commit import SentControl
from ductor.journal.events import ChildStatus, Compensated, ErrorInfo, Message, PayloadRef

CHILD_MESSAGE_PREFIX: Final = "child:"
"""Begins the id of every message that tells of a child run."""

CHECKPOINT_SUFFIX: Final = ":checkpoint"
"""A child has one parent, which waits for one checkpoint at most: its name need not stand in the id."""

REPORT_ARGUMENTS: Final = frozenset({"report_to", "report_id"})
"""With these a parent asks a child run to undo itself and to tell it: the undo that waits, the message's id."""


class ChildReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a child has come.

    Attributes:
        run_id: the child, as its parent knows it.
        generation: of the parent's step, when it started the child; 0 where the store reports.
        error: as the parent's step fails with it.
        owner: of a child that was `refused`: the run that its key belongs to.
    """

    run_id: str
    status: ChildStatus
    generation: int = 0
    checkpoint: str = ""
    output: JsonValue = None
    error: ErrorInfo | None = None
    compensated: Compensated = ""
    owner: str = ""


def report_message_id(run_id: str, *, is_checkpoint: bool = False) -> str:
    """The id of the message that tells of a child's end or refusal, or of the checkpoint that its parent waits for."""
    return f"{CHILD_MESSAGE_PREFIX}{run_id}{CHECKPOINT_SUFFIX if is_checkpoint else ''}"


def report_message(report: ChildReport, node: str, output_ref: PayloadRef | None = None) -> Message:
    """The message for the parent whose step `node` has started the child."""
    return Message(
        id=report_message_id(report.run_id, is_checkpoint=report.status == "checkpoint"),
        kind="child",
        node=node,
        payload=msgspec.to_builtins(report),
        payload_ref=output_ref,
        by=f"run:{report.run_id}",
    )


def undone_message(run_id: str, report_to: str, report_id: str, compensated: Compensated) -> Message:
    """What a parent hears that has asked its child run to undo itself.

    Args:
        run_id: the child, as its parent knows it.
        report_to, report_id: the undo that waits, and the message's id; it ends with the parent's life that asks.
        compensated: how far the child has undone what it had done; empty where nothing was to be undone.
    """
    generation = int(report_id.rpartition(":")[2])
    report = ChildReport(generation=generation, run_id=run_id, status="cancelled", compensated=compensated)
    return msgspec.structs.replace(report_message(report, report_to), id=report_id)


def nothing_to_undo(control: SentControl) -> Message | None:
    """What the store answers to a request to undo for a run that does not exist: its key was another one's, or its
    retention is over. None for a request that nobody waits for the answer of."""
    report_to, report_id = control.arguments.get("report_to"), control.arguments.get("report_id")
    if control.kind != "compensate" or not isinstance(report_to, str) or not isinstance(report_id, str):
        return None
    return undone_message(control.run_id, report_to, report_id, "")


def report_of(message: Message) -> ChildReport:
    """The report that a message of kind `child` brings."""
    return msgspec.convert(message.payload, ChildReport)
