"""What every store asks of messages, events, waits and inbox rows before it takes them: the same refusals everywhere.

Each function returns nothing and raises ValueRefusedError, naming what is wrong.
"""

from collections.abc import Sequence

import msgspec

from ductor.journal.bulk_controls import BulkControl
from ductor.journal.child_reports import CHILD_MESSAGE_PREFIX, REPORT_ARGUMENTS
from ductor.journal.codec import checked_key, checked_text, checked_value, encode_value
from ductor.journal.commit import BusEvent, Commit, EventWait, InboxItem, LeaseWait, Payload, SentControl, SentMessage
from ductor.journal.digest_store import MAX_DIGEST_ITEM_BYTES, MESSAGE_PREFIX, DigestWait
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import Message
from ductor.journal.ids import is_run_id
from ductor.journal.lease_store import MESSAGE_PREFIX as LEASE_MESSAGE_PREFIX
from ductor.journal.records import Control, StartTrigger
from ductor.journal.store import MAX_EVENT_PAYLOAD_BYTES, MAX_INBOX_PEOPLE, MAX_UNCONSUMED_MESSAGES

EVENT_MESSAGE_PREFIX = "event:"
"""Begins the id of the message that brings an event to a run. No other message may have such an id."""

FULL_INBOX = f"{MAX_UNCONSUMED_MESSAGES} messages of the run wait already: send again when it has consumed some"
"""Why a message is refused by a run that does not keep up."""

_scan_json = msgspec.json.Decoder(msgspec.Raw).decode
_INTEGER_BOUND = 2**63
_INDEX_BOUND = 2**31


def event_message_id(event_id: str) -> str:
    """The id of the message that brings this event to a run."""
    return EVENT_MESSAGE_PREFIX + event_id


def closed_reason(status: str) -> str:
    """Why a run that has ended refuses what is asked of it."""
    return f"the run is closed: {status}"


def check_control(control: Control) -> None:
    """Of what somebody asks of a run."""
    checked_key(control.request_id, "request_id")
    checked_value(control.arguments, "arguments")
    for name in REPORT_ARGUMENTS & control.arguments.keys():
        raise ValueRefusedError(
            "arguments", name, "whom an undo is reported to is said by commits of parent runs alone"
        )


def check_message(message: Message) -> None:
    """Of a message that somebody sends to a run."""
    if message.kind == "child" or message.id.startswith(CHILD_MESSAGE_PREFIX):
        raise ValueRefusedError("message id", "", "messages that tell of a child run are made by its commits alone")
    _check_message(message)


def _check_message(message: Message) -> None:
    _check_id(message.id, "message id")
    if message.kind == "event" or message.id.startswith(EVENT_MESSAGE_PREFIX):
        raise ValueRefusedError("message id", "", "messages that bring events are made by the bus alone")
    if message.kind == "digest" or message.id.startswith(MESSAGE_PREFIX):
        raise ValueRefusedError("message id", "", "messages that tell of a digest are made by the store alone")
    if message.kind == "lease" or message.id.startswith(LEASE_MESSAGE_PREFIX):
        raise ValueRefusedError("message id", "", "messages that grant a lease are made by the store alone")
    checked_key(message.name, "message name")
    checked_key(message.node, "message node")
    checked_text(message.by, "message by")
    checked_value(message.payload, "message payload")


def check_json(text: bytes, what: str) -> None:
    """Raises ValueRefusedError for bytes that are no JSON text in UTF-8."""
    try:
        _scan_json(text)
        if not text.isascii():
            text.decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueRefusedError(what, "", str(error)) from error


def check_payloads(message: Message, payloads: Sequence[Payload]) -> None:
    """Of the large values that are stored with a message."""
    ref = message.payload_ref
    if ref is not None and all(payload.hash != ref.hash for payload in payloads):
        raise ValueRefusedError("message payload_ref", "", f"the payload {ref.hash} does not come with it")
    for payload in payloads:
        check_json(payload.text, "payload")


def check_event(event: BusEvent) -> None:
    """Of an event that is published."""
    checked_key(event.tenant, "tenant")
    _check_id(event.event_id, "event id")
    _check_id(event.name, "event name")
    checked_text(event.source, "event source")
    size_bytes = len(encode_value(checked_value(event.payload, "event payload")))
    if size_bytes > MAX_EVENT_PAYLOAD_BYTES:
        reason = f"{size_bytes} bytes of JSON text, the limit is {MAX_EVENT_PAYLOAD_BYTES}"
        raise ValueRefusedError("event payload", "", reason)


def check_bulk_control(bulk: BulkControl) -> None:
    """Of a control that is asked of many runs."""
    if not is_run_id(bulk.bulk_id):
        raise ValueRefusedError("bulk id", "", "it is no UUID in lower case with hyphens")
    _check_id(bulk.tenant, "tenant")
    checked_key(bulk.definition or "", "definition")
    checked_text(bulk.by, "by")
    checked_text(bulk.reason, "reason")
    _check_integer(bulk.requested_at_us, "requested_at_us", _INTEGER_BOUND)


def check_trigger(trigger: StartTrigger) -> None:
    """Of what starts runs by itself."""
    for what, text in (
        ("tenant", trigger.tenant),
        ("definition", trigger.definition),
        ("manifest_hash", trigger.manifest_hash),
        ("event", trigger.event),
    ):
        checked_key(text, what)
    _check_integer(trigger.next_at_us or 0, "next_at_us", _INTEGER_BOUND)


def check_parts(commit: Commit) -> None:
    """Of what a tick writes for those that wait."""
    for disposition in commit.messages:
        checked_text(disposition.message_id, "message id")
    for wait in commit.waits:
        _check_wait(wait)
    for item in commit.inbox:
        _check_inbox_item(item)
    for digest in commit.digests:
        _check_digest(digest)
    for node in (*commit.waits_gone, *commit.inbox_gone, *commit.digests_gone, *commit.leases_gone):
        checked_text(node, "node")
    for lease in commit.leases:
        _check_lease(lease)
    for event in commit.published:
        check_event(event)
    for sent in commit.sent:
        _check_sent(sent)
    for control in commit.sent_controls:
        _check_sent_control(control)


def _check_wait(wait: EventWait) -> None:
    checked_key(wait.node, "wait node")
    checked_key(wait.name, "wait name")
    checked_key(wait.key_path, "wait key_path")
    checked_key(wait.key_value, "wait key_value")
    _check_integer(wait.since_us, "wait since_us", _INTEGER_BOUND)
    _check_integer(wait.index, "wait index", _INDEX_BOUND)


def _check_inbox_item(item: InboxItem) -> None:
    checked_key(item.node, "inbox node")
    checked_text(item.title, "inbox title")
    checked_text(item.status, "inbox status")
    if len(item.people) > MAX_INBOX_PEOPLE:
        raise ValueRefusedError("inbox people", "", f"{len(item.people)} people, the limit is {MAX_INBOX_PEOPLE}")
    for person in item.people:
        _check_id(person, "inbox person")
    _check_integer(item.since_us, "inbox since_us", _INTEGER_BOUND)
    _check_integer(item.due_at_us or 0, "inbox due_at_us", _INTEGER_BOUND)


def _check_digest(digest: DigestWait) -> None:
    checked_key(digest.node, "digest node")
    checked_key(digest.key, "digest key")
    _check_integer(digest.generation, "digest generation", _INDEX_BOUND)
    _check_integer(digest.duration_ms, "digest duration_ms", _INTEGER_BOUND // 1_000_000)
    _check_integer(digest.max_items, "digest max_items", _INDEX_BOUND)
    size_bytes = len(encode_value(checked_value(digest.item, "digest item")))
    if size_bytes > MAX_DIGEST_ITEM_BYTES:
        reason = f"{size_bytes} bytes of JSON text, the limit is {MAX_DIGEST_ITEM_BYTES}"
        raise ValueRefusedError("digest item", "", reason)


def _check_lease(lease: LeaseWait) -> None:
    checked_key(lease.node, "lease node")
    checked_key(lease.key, "lease key")
    _check_integer(lease.generation, "lease generation", _INDEX_BOUND)
    _check_integer(lease.limit, "lease limit", _INDEX_BOUND)


def _check_sent(sent: SentMessage) -> None:
    if not is_run_id(sent.run_id):
        raise ValueRefusedError("run id of a sent message", "", "it is no UUID in lower case with hyphens")
    _check_message(sent.message)
    check_payloads(sent.message, () if sent.payload is None else (sent.payload,))


def _check_sent_control(control: SentControl) -> None:
    if not is_run_id(control.run_id):
        raise ValueRefusedError("run id of a sent control", "", "it is no UUID in lower case with hyphens")
    _check_id(control.request_id, "request id of a sent control")
    checked_text(control.by, "by of a sent control")
    checked_value(control.arguments, "arguments of a sent control")


def _check_id(text: str, what: str) -> None:
    if not text:
        raise ValueRefusedError(what, "", "it is empty")
    checked_key(text, what)


def _check_integer(value: int, what: str, bound: int) -> None:
    if not -bound <= value < bound:
        raise ValueRefusedError(what, "", f"{value} does not fit into {bound.bit_length()} bits")
