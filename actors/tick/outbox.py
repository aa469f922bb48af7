"""What a tick writes and sends beside its journal row. Derived while the tick decides, committed with the row."""

import msgspec

from ductor.journal.commit import BusEvent, EventWait, InboxItem, MessageDisposition, SentMessage
from ductor.journal.digest_store import DigestWait
from ductor.journal.state import ASKING, NodeState, RunState

EVENT_NAME = "event:"
"""Begins the names under which parked nodes hear events."""


class Outbox(msgspec.Struct):
    """Rows for the commit.

    Attributes:
        waits, inbox, digests: rows of nodes that park, by (node, index) and node.
        waits_gone, inbox_gone, digests_gone: nodes whose rows go.
        messages: what became of messages, by id.
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
        )

    def leave(self, ref: str, node: NodeState) -> None:
        """A parked node leaves: its rows go, if it can have any, or are not written in the first place."""
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

    def close(self, state: RunState) -> None:
        """The run ends: messages that nothing waited for are undelivered."""
        for message_id in state.inbox:
            self.messages[message_id] = MessageDisposition(message_id, "undelivered")
