"""What the memory store keeps of messages, and of what waits for people."""

from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import count, islice

import msgspec

from ductor.journal.admission import FULL_INBOX, check_message, check_payloads, closed_reason, event_message_id
from ductor.journal.clock import Clock
from ductor.journal.codec import stored_value
from ductor.journal.commit import BusEvent, Commit, InboxItem, MessageDisposition, Payload, SentMessage
from ductor.journal.events import Message, MessageKind
from ductor.journal.memory_chains import MemoryChains
from ductor.journal.memory_rows import RunRows
from ductor.journal.records import InboxEntry, MessageReceipt
from ductor.journal.sorted_items import SortedItems
from ductor.journal.store import (
    MAX_UNCONSUMED_EVENTS,
    MAX_UNCONSUMED_MESSAGES,
    MAX_UNCONSUMED_SENT_MESSAGES,
)
from ductor.journal.transfer import StoredMessage

ANSWERS: frozenset[str] = frozenset({"child", "lease"})
"""What a run is told because of what it has begun itself."""

_encode = msgspec.json.Encoder().encode
_decode_message = msgspec.json.Decoder(Message).decode


class RunMessages:
    """The messages of one run. `waiting` are those that no tick has taken up, in order."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._messages: dict[str, bytes] = {}
        self.receipts: dict[str, MessageReceipt] = {}
        self.waiting: dict[str, None] = {}
        self._unconsumed: dict[str, MessageKind] = {}
        self._unconsumed_events = 0
        self._unconsumed_answers = 0

    def unconsumed_count(self, *, events: bool) -> int:
        """Events, or what others have sent, that were neither consumed nor given up. Answers to what the run itself has
        begun don't count: their number is bounded by it."""
        if events:
            return self._unconsumed_events
        return len(self._unconsumed) - self._unconsumed_events - self._unconsumed_answers

    def texts(self) -> Iterable[bytes]:
        """All messages as JSON."""
        return self._messages.values()

    def add(self, message: Message, *, is_delivered: bool) -> MessageReceipt:
        """Store a message whose id is new."""
        self._messages[message.id] = _encode(message)
        receipt = MessageReceipt(
            message_id=message.id,
            verdict="duplicate",
            position=message.position,
            at_us=message.at_us,
            disposition="" if is_delivered else "undelivered",
            run_id=self._run_id,
        )
        self.receipts[message.id] = receipt
        if is_delivered:
            self.waiting[message.id] = None
            self._unconsumed[message.id] = message.kind
            self._count(message.kind, 1)
        return receipt

    def dispose(self, disposition: MessageDisposition, version: int | None) -> None:
        """Note what became of a message; what is consumed or undelivered stays so."""
        message_id = disposition.message_id
        if message_id not in self._unconsumed:
            return
        receipt = self.receipts[message_id]
        self.receipts[message_id] = msgspec.structs.replace(
            receipt,
            disposition=disposition.disposition,
            version=version if receipt.version is None else receipt.version,
        )
        self.waiting.pop(message_id, None)
        if disposition.disposition != "buffered":
            self._count(self._unconsumed.pop(message_id), -1)

    def _count(self, kind: MessageKind, change: int) -> None:
        self._unconsumed_events += change if kind == "event" else 0
        self._unconsumed_answers += change if kind in ANSWERS else 0

    def restore(self, stored: StoredMessage, position: int) -> None:
        """Put back a message of an imported run, as it stood, at a new position."""
        message = msgspec.structs.replace(stored.message, position=position)
        self._messages[message.id] = _encode(message)
        self.receipts[message.id] = MessageReceipt(
            message_id=message.id,
            verdict="duplicate",
            position=position,
            at_us=message.at_us,
            disposition=stored.disposition,
            version=stored.version,
            run_id=self._run_id,
        )

    def read_page(self, after_position: int, limit: int) -> list[StoredMessage]:
        """Messages with what became of them, in order of position."""
        receipts = (receipt for receipt in self.receipts.values() if receipt.position > after_position)
        return [
            StoredMessage(
                message=_decode_message(self._messages[receipt.message_id]),
                disposition=receipt.disposition,
                version=receipt.version,
            )
            for receipt in islice(receipts, limit)
        ]

    def read_unconsumed(self) -> tuple[Message, ...]:
        """Messages that were neither consumed nor given up, in order."""
        return tuple(_decode_message(self._messages[message_id]) for message_id in self._unconsumed)

    def read_waiting(self) -> tuple[Message, ...]:
        """Messages that wait, in order."""
        return tuple(_decode_message(self._messages[message_id]) for message_id in self.waiting)


class MemoryMessages(MemoryChains):
    """Messages of runs, and the inbox."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._messages: dict[str, RunMessages] = {}
        self._message_positions = count(1)
        self._with_messages: dict[str, None] = {}
        self._inbox: dict[tuple[str, str], bytes] = {}
        self._inbox_order: SortedItems[tuple[str, str]] = SortedItems()
        self._inbox_people: dict[str, SortedItems[tuple[str, str]]] = {}

    async def send_message(
        self, run_id: str, message: Message, payloads: Sequence[Payload] = (), *, tenant: str | None = None
    ) -> MessageReceipt | None:
        """Store a message for a run, idempotent by (chain of the run, id). None when the run does not exist or is
        another tenant's. Refused: the run has ended, or too many messages of it wait."""
        check_message(message)
        check_payloads(message, payloads)
        asked = self._run(run_id)
        if asked is None or (tenant is not None and asked.head.tenant != tenant):
            return None
        present = self._receipt(asked, message.id)
        if present is not None:
            return present
        run = self._latest_run(asked)
        run_id = run.head.run_id
        messages = self._messages_of(run_id)
        reason = ""
        if run.is_closed:
            reason = closed_reason(run.head.status)
        elif messages.unconsumed_count(events=False) >= MAX_UNCONSUMED_MESSAGES:
            reason = FULL_INBOX
        if reason:
            return MessageReceipt(message_id=message.id, verdict="refused", reason=reason, run_id=run_id)
        run.add_payloads(payloads)
        receipt = self._add_message(run_id, message, self._clock.now_us(), is_delivered=True)
        return msgspec.structs.replace(receipt, verdict="accepted")

    async def message_receipt(self, run_id: str, message_id: str) -> MessageReceipt | None:
        """What became of a message."""
        run = self._run(run_id)
        if run is not None:
            return self._receipt(run, message_id)
        messages = self._messages.get(run_id)
        return None if messages is None else messages.receipts.get(message_id)

    async def deliver_event(self, event: BusEvent, run_ids: Sequence[str]) -> Sequence[str]:
        """Store the event as a message for each of these runs that is open; which ones got it now, in order of id."""
        self._check_open()
        stored = stored_value(event.payload, "event payload")
        message = Message(
            id=event_message_id(event.event_id),
            kind="event",
            name=event.name,
            payload=stored.inline,
            payload_ref=stored.ref,
            by=event.source,
        )
        delivered = []
        for asked_run_id in sorted(set(run_ids)):
            asked = self._runs.get(asked_run_id)
            run = None if asked is None else self._latest_run(asked)
            if run is None or run.is_closed or run.head.tenant != event.tenant:
                continue
            run_id = run.head.run_id
            messages = self._messages_of(run_id)
            if message.id in messages.receipts or self._has_come_before(run, "message", message.id):
                continue
            is_delivered = messages.unconsumed_count(events=True) < MAX_UNCONSUMED_EVENTS
            self._add_message(run_id, message, event.published_at_us, is_delivered=is_delivered)
            if is_delivered:
                if stored.payload is not None:
                    run.add_payloads((stored.payload,))
                delivered.append(run_id)
        return delivered

    async def inbox(
        self,
        *,
        tenant: str | None = None,
        person: str | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
    ) -> Sequence[InboxEntry]:
        """What waits for people, in order of (run_id, node); for one person: what names them or nobody."""
        self._check_open()
        keys = self._inbox_keys(person, after)
        found = (key for key in keys if tenant in {None, self._runs[key[0]].head.tenant})
        return [self._read_inbox(*key) for key in islice(found, limit)]

    # --- commits ------------------------------------------------------------------------------------------------------

    def _waiting_messages(self, run_id: str) -> tuple[Message, ...]:
        messages = self._messages.get(run_id)
        return () if messages is None else messages.read_waiting()

    def _dispose_messages(self, commit: Commit) -> None:
        messages = self._messages_of(commit.run_id)
        for disposition in commit.messages:
            messages.dispose(disposition, commit.version or None)
        if not messages.waiting:
            self._with_messages.pop(commit.run_id, None)

    def _send_from(self, sender: RunRows, sent: Iterable[SentMessage]) -> None:
        for run_id, message, payload in ((each.run_id, each.message, each.payload) for each in sent):
            run = self._runs.get(run_id)
            if run is not None and run.head.tenant != sender.head.tenant:
                continue
            messages = self._messages_of(run_id)
            if message.id in messages.receipts:
                continue
            is_bounded = message.kind not in ANSWERS
            is_full = is_bounded and messages.unconsumed_count(events=False) >= MAX_UNCONSUMED_SENT_MESSAGES
            is_open = run is not None and (run.is_continued or not run.is_closed)
            is_delivered = is_open and not is_full
            self._add_message(run_id, message, self._clock.now_us(), is_delivered=is_delivered)
            if run is not None and payload is not None:
                run.add_payloads((payload,))

    def _write_inbox(self, commit: Commit) -> None:
        for node in commit.inbox_gone:
            self._remove_inbox(commit.run_id, node)
        for item in commit.inbox:
            self._remove_inbox(commit.run_id, item.node)
            key = (commit.run_id, item.node)
            self._inbox[key] = _encode(item)
            self._inbox_order.add(key)
            for person in {*item.people} or {""}:
                self._inbox_people.setdefault(person, SortedItems()).add(key)

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _receipt(self, run: RunRows, message_id: str) -> MessageReceipt | None:
        """What became of a message that was sent to this run, in whichever run of its chain it is now."""
        for run_id in self._places_of_input(run, "message", message_id):
            messages = self._messages.get(run_id)
            if messages is not None and message_id in messages.receipts:
                return messages.receipts[message_id]
        return None

    def _messages_of(self, run_id: str) -> RunMessages:
        messages = self._messages.get(run_id)
        if messages is None:
            messages = self._messages[run_id] = RunMessages(run_id)
        return messages

    def _add_message(self, run_id: str, message: Message, at_us: int, *, is_delivered: bool) -> MessageReceipt:
        stored = msgspec.structs.replace(message, at_us=at_us, position=next(self._message_positions))
        if is_delivered:
            self._with_messages[run_id] = None
        return self._messages_of(run_id).add(stored, is_delivered=is_delivered)

    def _inbox_keys(self, person: str | None, after: tuple[str, str] | None) -> Iterable[tuple[str, str]]:
        if person is None:
            return self._inbox_order.ascending(after)
        found = [self._inbox_people[name] for name in {person, ""} if name in self._inbox_people]
        return merge(*(items.ascending(after) for items in found))

    def _read_inbox(self, run_id: str, node: str) -> InboxEntry:
        head = self._runs[run_id].head
        item = msgspec.json.decode(self._inbox[run_id, node], type=InboxItem)
        return InboxEntry(run_id=run_id, tenant=head.tenant, definition=head.definition, item=item)

    def _remove_inbox(self, run_id: str, node: str) -> None:
        stored = self._inbox.pop((run_id, node), None)
        if stored is None:
            return
        self._inbox_order.discard((run_id, node))
        for person in {*msgspec.json.decode(stored, type=InboxItem).people} or {""}:
            self._inbox_people[person].discard((run_id, node))
            if not self._inbox_people[person]:
                del self._inbox_people[person]
