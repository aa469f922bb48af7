"""What a tick writes and sends beside its journal row. Derived while the tick decides, committed with the row."""

import msgspec

from ductor.journal.commit import (
    BusEvent,
    EventWait,
    InboxItem,
    LeaseWait,
    MessageDisposition,
    Payload,
    SentControl,
    SentMessage,
)
from ductor.journal.digest_store import DigestWait
from ductor.journal.events import RunStarted
from ductor.journal.state import ASKING, NodeState, RunState

EVENT_NAME = "event:"
"""Begins the names under which parked nodes hear events."""


class StartedRun(msgspec.Struct, frozen=True):
    """A run that this tick starts: a child, or the one that continues this run."""

    run_id: str
    started: RunStarted
    payloads: tuple[Payload, ...] = ()


class Outbox(msgspec.Struct):
    """Rows for the commit.

    Attributes:
        waits, inbox, digests: rows of nodes that park, by (node, index) and node.
        waits_gone, inbox_gone, digests_gone: nodes whose rows go.
        messages: what became of messages, by id.
        leases, leases_gone: what nodes (`@run`: the whole run) ask for; the keys that they ask for or hold no longer.
        forwards_to: the run that continues this one.
    """

    waits: dict[tuple[str, int], EventWait] = msgspec.field(default_factory=dict)
    waits_gone: dict[str, None] = msgspec.field(default_factory=dict)
    inbox: dict[str, InboxItem] = msgspec.field(default_factory=dict)
    inbox_gone: dict[str, None] = msgspec.field(default_factory=dict)
    digests: dict[str, DigestWait] = msgspec.field(default_factory=dict)
    digests_gone: dict[str, None] = msgspec.field(default_factory=dict)
    messages: dict[str, MessageDisposition] = msgspec.field(default_factory=dict)
    published: list[BusEvent] = msgspec.field(default_factory=list)
    sent: list[SentMessage] = msgspec.field(default_factory=list)
    started: list[StartedRun] = msgspec.field(default_factory=list)
    controls: list[SentControl] = msgspec.field(default_factory=list)
    leases: dict[str, LeaseWait] = msgspec.field(default_factory=dict)
    leases_gone: dict[str, str] = msgspec.field(default_factory=dict)
    forwards_to: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not (
            self.waits
            or self.waits_gone
            or self.inbox
            or self.inbox_gone
            or self.digests
            or self.digests_gone
            or self.messages
            or self.published
            or self.sent
            or self.started
            or self.controls
            or self.leases
            or self.leases_gone
            or self.forwards_to
        )

    def leave(self, ref: str, node: NodeState) -> None:
        """A parked node leaves: its rows go, if it can have any, or are not written in the first place."""
        if node.lease_key:
            self.leases.pop(ref, None)
            self.leases_gone[ref] = node.lease_key
        if any(name.startswith(EVENT_NAME) for name in node.names):
            self.withdraw_waits(ref)
        if node.waiting in ASKING:
            self.inbox.pop(ref, None)
            self.inbox_gone[ref] = None
        if node.waiting == "digest":
            self.digests.pop(ref, None)
            self.digests_gone[ref] = None

    def withdraw_waits(self, ref: str) -> None:
        """Nothing is heard under this name any more."""
        for key in [key for key in self.waits if key[0] == ref]:
            del self.waits[key]
        self.waits_gone[ref] = None

    def forward_to(self, run_id: str) -> None:
        """The run is continued as another one: what its inbox still holds goes there, and is not noted as kept here."""
        self.forwards_to = run_id
        self.messages = {
            message_id: disposition
            for message_id, disposition in self.messages.items()
            if disposition.disposition != "buffered"
        }

    def close(self, state: RunState) -> None:
        """The run ends: messages that nothing waited for are undelivered."""
        for message_id in state.inbox:
            self.messages[message_id] = MessageDisposition(message_id, "undelivered")
