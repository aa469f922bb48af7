"""What the memory store keeps of digests: what parked steps bring, and the windows that gather it."""

from collections.abc import Sequence
from itertools import islice

import msgspec

from ductor.journal.clock import Clock
from ductor.journal.codec import encode_value
from ductor.journal.commit import Commit
from ductor.journal.digest_store import (
    MAX_JOINED_AT_ONCE,
    DigestChange,
    DigestWait,
    DigestWindow,
    DigestWork,
    UnjoinedDigest,
)
from ductor.journal.digest_windows import Member, OpenWindow, advance_window, tellings
from ductor.journal.memory_messages import MemoryMessages

DigestKey = tuple[str, str]  # run id, node


class WindowRows(msgspec.Struct):
    """An open window: its row, and its members in order."""

    row: OpenWindow
    members: list[Member]


class MemoryDigests(MemoryMessages):
    """Waits by run and step; those that nobody has joined, in order; windows by name."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._digests: dict[DigestKey, tuple[DigestWait, bytes]] = {}
        self._unjoined: dict[DigestKey, None] = {}
        self._windows: dict[DigestWindow, WindowRows] = {}

    async def unjoined_digests(self, run_ids: Sequence[str], limit: int) -> Sequence[UnjoinedDigest]:
        """What steps of these runs bring and nobody has joined yet, in order of parking."""
        self._check_open()
        wanted = set(run_ids)
        return [self._unjoined_digest(key) for key in islice((k for k in self._unjoined if k[0] in wanted), limit)]

    async def digest_work(self, now_us: int, limit: int) -> DigestWork:
        """What is left to be done, the oldest first."""
        self._check_open()
        due = sorted(
            (open_window.row.closes_at_us, window)
            for window, open_window in self._windows.items()
            if open_window.row.leader_run_id and open_window.row.closes_at_us <= now_us
        )
        return DigestWork(
            unjoined=tuple(self._unjoined_digest(key) for key in islice(self._unjoined, limit)),
            due=tuple(window for _, window in due[:limit]),
        )

    async def join_digest(self, window: DigestWindow, unjoined: Sequence[UnjoinedDigest], now_us: int) -> DigestChange:
        """Bring items to their window; those that have been joined, or whose step has left, are passed over."""
        self._check_open()
        members = []
        for joining in unjoined[:MAX_JOINED_AT_ONCE]:
            key = (joining.run_id, joining.window.node)
            if key in self._unjoined and self._unjoined_digest(key) == joining:
                wait, text = self._digests[key]
                members.append(Member(joining.run_id, wait.generation, text, wait.duration_ms, wait.max_items))
                del self._unjoined[key]
        return self._advance(window, members, now_us)

    async def close_digest(self, window: DigestWindow, now_us: int) -> DigestChange:
        """Close a window whose time is over, and tell its leader."""
        self._check_open()
        return self._advance(window, [], now_us)

    def _advance(self, window: DigestWindow, members: list[Member], now_us: int) -> DigestChange:
        self._forget_leader_that_left(window)
        before = self._windows.get(window)
        advance = advance_window(None if before is None else before.row, members, now_us)
        stored = [] if before is None else [member.item for member in before.members]
        told = []
        for run_id, message, payload in tellings(advance, window.node, stored):
            if message.id not in self._messages_of(run_id).receipts:
                self._runs[run_id].add_payloads(() if payload is None else (payload,))
                self._add_message(run_id, message, self._clock.now_us(), is_delivered=True)
                told.append(run_id)
        self._windows.pop(window, None)
        if advance.window is not None:
            kept = [] if before is None or advance.closed else before.members
            self._windows[window] = WindowRows(advance.window, [*kept, *advance.added])
        leads = advance.window is not None and advance.window.leader_run_id
        return DigestChange(
            closes_at_us=advance.window.closes_at_us if advance.window is not None and leads else None,
            told=tuple(told),
        )

    def _forget_leader_that_left(self, window: DigestWindow) -> None:
        """A leader that is not parked any more takes its item along."""
        found = self._windows.get(window)
        if found is None or not found.row.leader_run_id:
            return
        leader = (found.row.leader_run_id, found.row.leader_generation)
        parked = self._digests.get((leader[0], window.node))
        if parked is not None and parked[0].generation == leader[1]:
            return
        members = [member for member in found.members if (member.run_id, member.generation) != leader]
        if members:
            row = msgspec.structs.replace(
                found.row,
                leader_run_id="",
                leader_generation=0,
                item_count=len(members),
                item_bytes=sum(len(member.item) for member in members),
            )
            self._windows[window] = WindowRows(row, members)
        else:
            del self._windows[window]

    # --- commits ------------------------------------------------------------------------------------------------------

    def _write_digests(self, commit: Commit) -> None:
        for node in commit.digests_gone:
            self._digests.pop((commit.run_id, node), None)
            self._unjoined.pop((commit.run_id, node), None)
        for wait in commit.digests:
            key = (commit.run_id, wait.node)
            self._digests[key] = (wait, encode_value(wait.item))
            self._unjoined[key] = None

    def _unjoined_digest(self, key: DigestKey) -> UnjoinedDigest:
        run_id, node = key
        head, wait = self._runs[run_id].head, self._digests[key][0]
        window = DigestWindow(head.tenant, head.definition, node, wait.key)
        return UnjoinedDigest(run_id=run_id, generation=wait.generation, window=window)
