"""What the engine needs of a database for digests: windows that runs of one definition share.

A *window* gathers the items of one (tenant, definition, step, key). It opens with the first item, whose step says how
long it stays open and how many items it takes; the run that brought it is its *leader*. A run that joins later is told
at once where its item went. When the window closes, its leader is told all items, in the order of joining.

How it is carried out, so that nothing is lost or told twice whoever dies when:
1. The tick that parks a step writes what it brings with its row (`Commit.digests`); the tick in which it leaves,
   however it leaves, removes that (`Commit.digests_gone`).
2. `join_digest` brings it to its window: window, item and the message to the run are one transaction, which marks what
   it has joined. Only what is marked by nobody is joined.
3. `close_digest`, or the join that fills the window, closes it and then reads it; the message to the leader is part of
   that transaction too.
Both are repeated by whoever finds something left to do (`digest_work`), and change nothing a second time.

A leader that has left before its window closed takes its own item with it. The others' items stay, and go to the next
run that joins: it leads the window from then on. The window keeps its time; where that is over, it closes at once. Runs
that were told of the former leader stay as they are.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ductor.definitions.values import JsonValue

MAX_DIGEST_ITEM_BYTES = 32 << 10
"""JSON text of one item of a digest at most, in bytes."""

MAX_DIGEST_BYTES = 4 << 20
"""A window with so many bytes of items closes, however much time it has left: its items are one value of its leader."""

MAX_JOINED_AT_ONCE = 200
"""Items brought to one window in one transaction; the rest follow in the next one."""

MESSAGE_PREFIX = "digest:"
"""Begins the id of the message that tells a run of its digest. No other message may have such an id."""


class DigestWait(msgspec.Struct, frozen=True, kw_only=True):
    """What a parked digest step brings.

    Attributes:
        generation: how often the run was redriven before; a step that parks again brings its item again.
        key: canonical JSON of the key, by hash where it is long.
        duration_ms, max_items: of the window, if this opens one.
    """

    node: str
    generation: int
    key: str
    item: JsonValue
    duration_ms: int
    max_items: int


class DigestWindow(msgspec.Struct, frozen=True, order=True):
    """The name of a window; one window of a name is open at a time."""

    tenant: str
    definition: str
    node: str
    key: str


class UnjoinedDigest(msgspec.Struct, frozen=True, kw_only=True):
    """A parked step whose item is not in its window yet."""

    run_id: str
    generation: int
    window: DigestWindow


class DigestWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to be done: items to bring to their windows, and windows to close."""

    unjoined: tuple[UnjoinedDigest, ...] = ()
    due: tuple[DigestWindow, ...] = ()


class DigestChange(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of a window.

    Attributes:
        closes_at_us: when the one that is open now closes; None where none is, or it has no leader.
        told: runs for which a message was stored.
    """

    closes_at_us: int | None = None
    told: tuple[str, ...] = ()


def message_id(node: str, generation: int) -> str:
    """The id of the message that tells a run of its digest."""
    return f"{MESSAGE_PREFIX}{node}:{generation}"


class DigestStore(Protocol):
    """The part of `ductor.journal.store.Store` that digests use."""

    async def unjoined_digests(self, run_ids: Sequence[str], limit: int) -> Sequence[UnjoinedDigest]:
        """What steps of these runs bring and nobody has joined yet, in order of parking."""
        ...

    async def join_digest(self, window: DigestWindow, unjoined: Sequence[UnjoinedDigest], now_us: int) -> DigestChange:
        """Bring items to their window, `MAX_JOINED_AT_ONCE` at most, in this order; those that have been joined, or
        whose step has left, are passed over. A window that is over at `now_us`, or full, is closed."""
        ...

    async def close_digest(self, window: DigestWindow, now_us: int) -> DigestChange:
        """Close a window whose time is over at `now_us`. Nothing happens to one whose time is not, and to one whose
        leader is gone: it waits for the next run."""
        ...

    async def digest_work(self, now_us: int, limit: int) -> DigestWork:
        """What is left to be done, the oldest first: `limit` items, and as many windows that closed at `now_us`."""
        ...
