"""How a window of a digest changes: a pure function, the same for both stores.

A store locks the window, reads what stands here under `OpenWindow`, asks `advance_window`, and writes what it answers
in the same transaction.
"""

import msgspec

from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_value, stored_value
from ductor.journal.commit import Payload
from ductor.journal.digest_store import MAX_DIGEST_BYTES, message_id
from ductor.journal.events import Message


class Member(msgspec.Struct, frozen=True):
    """A run that is to join, with the JSON text of its item, and the window that it would open."""

    run_id: str
    generation: int
    item: bytes
    duration_ms: int
    max_items: int


class OpenWindow(msgspec.Struct, frozen=True):
    """A window as its row says. `leader_run_id` is empty where the leader has left."""

    leader_run_id: str
    leader_generation: int
    closes_at_us: int
    max_items: int
    item_count: int
    item_bytes: int


class Closed(msgspec.Struct, frozen=True):
    """A window that closes: its leader is told the stored items, if there are any (`with_stored`), and these."""

    leader_run_id: str
    leader_generation: int
    with_stored: bool
    added: tuple[Member, ...]


class Merged(msgspec.Struct, frozen=True):
    """A run that is told where its item went."""

    member: Member
    leader_run_id: str


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written.

    Attributes:
        closed: windows that close, in order. Only the first can have stored items.
        merged: runs to tell.
        window: what is open afterwards.
        added: the members whose items are new in it; where no window closed, stored ones come before them.
    """

    closed: tuple[Closed, ...]
    merged: tuple[Merged, ...]
    window: OpenWindow | None
    added: tuple[Member, ...]


def advance_window(window: OpenWindow | None, joining: list[Member], now_us: int) -> Advance:
    """What becomes of a window when these join at `now_us`; without any it is closed if its time is over."""
    closed: list[Closed] = []
    merged: list[Merged] = []
    added: list[Member] = []

    def close(over: OpenWindow) -> None:
        closed.append(
            Closed(
                leader_run_id=over.leader_run_id,
                leader_generation=over.leader_generation,
                with_stored=over.item_count > len(added),
                added=tuple(added),
            )
        )
        added.clear()

    for member in joining:
        if window is not None and window.leader_run_id and window.closes_at_us <= now_us:
            close(window)
            window = None
        if window is not None and window.leader_run_id:
            merged.append(Merged(member, window.leader_run_id))
        window = _with_member(window, member, now_us)
        added.append(member)
        if window.item_count >= window.max_items or window.item_bytes >= MAX_DIGEST_BYTES:
            close(window)
            window = None
    if window is not None and window.leader_run_id and window.closes_at_us <= now_us:
        close(window)
        window = None
    return Advance(closed=tuple(closed), merged=tuple(merged), window=window, added=tuple(added))


def _with_member(window: OpenWindow | None, member: Member, now_us: int) -> OpenWindow:
    """The window with one more item. A member leads the window that it opens, and one without a leader."""
    if window is None:
        window = OpenWindow("", 0, now_us + member.duration_ms * 1_000, member.max_items, 0, 0)
    leads = not window.leader_run_id
    return OpenWindow(
        leader_run_id=member.run_id if leads else window.leader_run_id,
        leader_generation=member.generation if leads else window.leader_generation,
        closes_at_us=window.closes_at_us,
        max_items=window.max_items,
        item_count=window.item_count + 1,
        item_bytes=window.item_bytes + len(member.item),
    )


def tellings(advance: Advance, node: str, stored: list[bytes]) -> list[tuple[str, Message, Payload | None]]:
    """The messages to store: for which run, and the text of its payload where that is large.

    Args:
        stored: JSON texts of the items that stood in the window before, in order; of use where it closes.
    """
    told = [
        _telling(merged.member.run_id, node, merged.member.generation, {"merged_into": merged.leader_run_id})
        for merged in advance.merged
    ]
    for closed in advance.closed:
        texts = [*(stored if closed.with_stored else ()), *(member.item for member in closed.added)]
        items = decode_value(b"[" + b",".join(texts) + b"]")
        told.append(_telling(closed.leader_run_id, node, closed.leader_generation, {"items": items}))
    return told


def _telling(run_id: str, node: str, generation: int, payload: JsonValue) -> tuple[str, Message, Payload | None]:
    value = stored_value(payload, f"what the digest {node} tells")
    message = Message(
        id=message_id(node, generation), kind="digest", node=node, payload=value.inline, payload_ref=value.ref
    )
    return run_id, message, value.payload
