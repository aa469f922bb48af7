"""Messages to runs and the inbox of people; messages also inside the caller's own transaction."""

from collections.abc import Sequence

import msgspec
from asyncpg import Record

from ductor.journal.admission import FULL_INBOX, check_message, check_payloads, closed_reason, event_message_id
from ductor.journal.codec import stored_value
from ductor.journal.commit import BusEvent, InboxItem, Payload
from ductor.journal.events import TERMINAL_RUN_STATUSES, Message
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.callers import CallersConnection
from ductor.journal.postgres.database import Database, Fetch, fetch_on
from ductor.journal.postgres.rows import FIRST_RUN_ID, json_text
from ductor.journal.records import InboxEntry, MessageReceipt
from ductor.journal.store import MAX_UNCONSUMED_EVENTS, MAX_UNCONSUMED_MESSAGES

CHAIN_LOOK_BACK = 64
"""In so many runs of a chain before the latest one looks for messages and requests that were left behind."""

PASSING_TRIES = 10
"""How often one sends while the run is continued and others send: each time it moves what was left behind first."""

CONTINUES_TOO_FAST = "the run is continued faster than a message can follow; send it again, with the same id"

_decode_item = msgspec.json.Decoder(InboxItem).decode


async def send_message_on(
    connection: CallersConnection,
    run_id: str,
    message: Message,
    payloads: Sequence[Payload] = (),
    *,
    tenant: str | None = None,
) -> MessageReceipt | None:
    """As `PostgresStore.send_message`, in the caller's transaction: the message is there once that commits.

    The run takes it up when somebody wakes it, or when a host next looks for what waits.

    Raises ValueRefusedError, and what the driver raises.
    """
    return await _send(fetch_on(connection), run_id, message, payloads, tenant)


class Messages:
    """Messages of runs, and the inbox."""

    _database: Database

    async def send_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload] = (), *, tenant: str | None = None
    ) -> MessageReceipt | None:
        """Store a message for a run, idempotent by (run_id, id). None when the run does not exist or is another
        tenant's. Refused: the run has ended, or too many messages of it wait."""
        return await _send(self._database.fetch, run_id, message, payloads, tenant)

    async def message_receipt(self, run_id: str, message_id: str) -> MessageReceipt | None:
        """What became of a message."""
        return await _receipt(self._database.fetch, run_id, message_id) if is_run_id(run_id) else None

    async def deliver_event(self, event: BusEvent, run_ids: Sequence[str]) -> Sequence[str]:
        """Store the event as a message for each of these runs that is open; which ones got it now, in order of id."""
        stored = stored_value(event.payload, "event payload")
        payload = stored.payload
        rows = await self._database.fetch(
            "deliver_event",
            run_ids=sorted({run_id for run_id in run_ids if is_run_id(run_id)}),
            tenant=event.tenant,
            message_id=event_message_id(event.event_id),
            name=event.name,
            payload=json_text(stored.inline),
            payload_ref=json_text(stored.ref),
            by=event.source,
            at_us=event.published_at_us,
            payload_hash=None if payload is None else payload.hash,
            payload_body=None if payload is None else payload.text.decode(),
            bound=MAX_UNCONSUMED_EVENTS,
        )
        return [row[0] for row in rows]

    async def inbox(
        self,
        *,
        tenant: str | None = None,
        person: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[InboxEntry]:
        """What waits for people, in order of (run_id, node); for one person: what names them or nobody."""
        after_run_id, after_node = after or (FIRST_RUN_ID, "")
        values: dict[str, object] = {"after_run_id": after_run_id, "after_node": after_node, "limit": limit}
        if person is not None:
            values["person"] = person
        if tenant is not None:
            values["tenant"] = tenant
        query = {
            (False, False): "inbox",
            (False, True): "inbox_of_tenant",
            (True, False): "inbox_of_person",
            (True, True): "inbox_of_person_in_tenant",
        }[person is not None, tenant is not None]
        return [
            InboxEntry(run_id=row[0], tenant=row[1], definition=row[2], item=_decode_item(row[3]))
            for row in await self._database.fetch(query, **values)
        ]


async def _send(
    fetch: Fetch,
    run_id: str,
    message: Message,
    payloads: Sequence[Payload],
    tenant: str | None,
) -> MessageReceipt | None:
    check_message(message)
    check_payloads(message, payloads)
    if not is_run_id(run_id):
        return None
    latest_run_id = run_id
    for _ in range(PASSING_TRIES):
        rows = await fetch(
            "send_message",
            run_id=run_id,
            tenant=tenant,
            message_id=message.id,
            kind=message.kind,
            name=message.name,
            node=message.node,
            payload=json_text(message.payload),
            payload_ref=json_text(message.payload_ref),
            by=message.by,
            bound=MAX_UNCONSUMED_MESSAGES,
            look_back=CHAIN_LOOK_BACK,
            payload_hashes=[payload.hash for payload in payloads],
            payload_bodies=[payload.text.decode() for payload in payloads],
        )
        if not rows:
            return None
        row = rows[0]
        receipt = _answer(message.id, row)
        if receipt is not None:
            return receipt
        latest_run_id = row["run_id"]
        if row["left_behind_run_id"] is not None:
            await pass_on(fetch, row["left_behind_run_id"], latest_run_id)
        # else somebody else has stored it while this statement ran: the next one sees where
    return MessageReceipt(message_id=message.id, verdict="refused", reason=CONTINUES_TOO_FAST, run_id=latest_run_id)


def _answer(message_id: str, row: Record) -> MessageReceipt | None:
    """What one try to send has come to; None when it is to be tried again."""
    receiver = row["run_id"]
    if row["accepted_position"] is not None:
        return MessageReceipt(
            message_id=message_id,
            verdict="accepted",
            position=row["accepted_position"],
            at_us=row["accepted_at_us"],
            run_id=receiver,
        )
    if row["position"] is not None:
        return _duplicate(message_id, row)
    if row["left_behind_run_id"] is not None:
        return None
    if row["status"] in TERMINAL_RUN_STATUSES:
        reason = closed_reason(row["status"])
        return MessageReceipt(message_id=message_id, verdict="refused", reason=reason, run_id=receiver)
    if row["is_full"]:
        return MessageReceipt(message_id=message_id, verdict="refused", reason=FULL_INBOX, run_id=receiver)
    return None


async def pass_on(fetch: Fetch, run_id: str, to_run_id: str) -> None:
    """Move what was left behind in a run that was continued to the latest run of its chain."""
    await fetch(
        "pass_on",
        forward_run_id=[run_id],
        forward_commit_id=[None],
        forward_version=[None],
        forward_to_run_id=[to_run_id],
        but_message_run_id=[],
        but_message_message_id=[],
        but_control_run_id=[],
        but_control_request_id=[],
    )


async def _receipt(fetch: Fetch, run_id: str, message_id: str) -> MessageReceipt | None:
    rows = await fetch("message_receipt", run_id=run_id, message_id=message_id, look_back=CHAIN_LOOK_BACK)
    return _duplicate(message_id, rows[0]) if rows else None


def _duplicate(message_id: str, row: Record) -> MessageReceipt:
    return MessageReceipt(
        message_id=message_id,
        verdict="duplicate",
        position=row["position"],
        at_us=row["at_us"],
        disposition=row["disposition"],
        version=row["applied_version"],
        run_id=row["present_run_id"],
    )
