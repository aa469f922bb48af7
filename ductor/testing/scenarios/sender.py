"""Sends one thing of a scenario, and looks up what became of it."""

from ductor.actors.client import Client
from ductor.actors.errors import ControlRefusedError, MessageRefusedError
from ductor.actors.start import DEFAULT_TENANT
from ductor.handle import RunHandle
from ductor.journal.records import ControlReceipt, EventReceipt, MessageReceipt
from ductor.testing.scenarios.model import Send

DUPLICATE = "it is a duplicate"


async def send(client: Client, run_id: str, sent: Send, request_id: str) -> str:
    """Send it to the run, or to the bus. Returns why it was refused, empty when it was accepted."""
    try:
        receipt = await _receipt(client, RunHandle(client, run_id), sent, request_id)
    except ControlRefusedError as error:
        return error.reason
    except MessageRefusedError as error:
        return "; ".join((error.reason, *error.problems))
    return DUPLICATE if receipt.verdict == "duplicate" else ""


async def is_stored(client: Client, run_id: str, sent: Send, request_id: str) -> bool:
    """Whether the run has it already. An event is nobody's: publishing it again tells."""
    if sent.kind == "event":
        return False
    if sent.kind == "control":
        return await client.store.control(run_id, request_id) is not None
    return await client.receipt(run_id, request_id) is not None


async def refusal_on_record(client: Client, run_id: str, sent: Send, request_id: str) -> str:
    """Why the run did not do what was asked of it, empty where it did: it decides with its next tick."""
    if sent.kind != "control":
        return ""
    control = await client.store.control(run_id, request_id)
    return control.outcome if control is not None and control.disposition == "refused" else ""


async def _receipt(
    client: Client, run: RunHandle, sent: Send, request_id: str
) -> MessageReceipt | ControlReceipt | EventReceipt:
    step = sent.name
    if sent.kind == "event":
        return await client.publish_event(sent.name, sent.payload, event_id=request_id, tenant=DEFAULT_TENANT)
    if sent.kind == "signal":
        return await run.signal(sent.name, sent.payload, request_id=request_id, by=sent.by)
    if sent.kind == "reply":
        return await run.reply(step, sent.payload, by=sent.by, request_id=request_id)
    if sent.kind in ("approve", "reject"):
        vote = run.approve if sent.kind == "approve" else run.reject
        return await vote(step, by=sent.by, comment=sent.comment, groups=sent.groups, request_id=request_id)
    if sent.kind == "case":
        return await run.case(
            step,
            by=sent.by,
            status=sent.status,
            assignee=sent.assignee,
            comment=sent.comment,
            request_id=request_id,
        )
    return await _ask(run, sent, request_id)


async def _ask(run: RunHandle, sent: Send, request_id: str) -> ControlReceipt:
    reason = sent.reason or ""
    if sent.name == "redrive":
        return await run.redrive(sent.from_steps, input=sent.input, by=sent.by, request_id=request_id)
    if sent.name == "resume":
        return await run.resume(by=sent.by, request_id=request_id)
    controls = {
        "cancel": run.cancel,
        "terminate": run.terminate,
        "pause": run.pause,
        "compensate": run.compensate,
        "continue_as_new": run.continue_as_new,
    }
    ask = controls[sent.name]
    return await ask(by=sent.by, reason=reason, request_id=request_id)
