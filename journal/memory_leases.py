"""What the memory store keeps of leases: who holds a key and who waits for it, and which keys have to be looked at."""

from collections.abc import Sequence
from heapq import merge
from itertools import count, islice

import msgspec

from ductor.journal.clock import Clock
from ductor.journal.commit import Commit
from ductor.journal.events import RUN_LEASE, Message
from ductor.journal.lease_store import (
    MAX_GRANTED_AT_ONCE,
    MAX_HOLDERS_TOLD,
    LeaseChange,
    LeaseEntry,
    LeaseGrant,
    LeaseKey,
    LeaseLine,
    LeasePlace,
    message_id,
)
from ductor.journal.memory_messages import MemoryMessages
from ductor.journal.sorted_items import SortedItems

NodeKey = tuple[str, str]  # run id, node


class Line(msgspec.Struct):
    """Holders and waiters of one key, each in order of asking."""

    holders: dict[NodeKey, LeaseEntry] = msgspec.field(default_factory=dict)
    waiters: dict[NodeKey, LeaseEntry] = msgspec.field(default_factory=dict)

    def remove(self, at: NodeKey) -> None:
        """The node asks and holds no longer."""
        self.holders.pop(at, None)
        self.waiters.pop(at, None)


class MemoryLeases(MemoryMessages):
    """Lines by key, the key of each node that has a row, and the keys to be looked at."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._lines: dict[LeaseKey, Line] = {}
        self._lease_keys: dict[NodeKey, LeaseKey] = {}
        self._leases_to_look_at: SortedItems[tuple[str, str]] = SortedItems()
        self._lease_positions, self._fences = count(1), count(1)

    async def grant_leases(self, key: LeaseKey) -> LeaseChange:
        """Look at a key: grant what is free to those who wait first."""
        self._check_open()
        self._leases_to_look_at.discard(_pair(key))
        line = self._lines.get(key)
        grants: list[LeaseGrant] = []
        while line is not None and line.waiters and len(grants) < MAX_GRANTED_AT_ONCE:
            at, waiter = next(iter(line.waiters.items()))
            if len(line.holders) >= waiter.limit:
                break
            del line.waiters[at]
            holder = msgspec.structs.replace(waiter, fence=next(self._fences), since_us=self._clock.now_us())
            line.holders[at] = holder
            grants.append(self._tell_holder(holder))
        is_complete = len(grants) < MAX_GRANTED_AT_ONCE
        if not is_complete:
            self._leases_to_look_at.add(_pair(key))
        return LeaseChange(grants=tuple(grants), is_complete=is_complete)

    async def lease_work(self, after: LeaseKey | None, limit: int) -> Sequence[LeaseKey]:
        """Keys that have to be looked at, a page in their order."""
        self._check_open()
        pairs = self._leases_to_look_at.ascending(None if after is None else _pair(after))
        return [LeaseKey(*pair) for pair in islice(pairs, limit)]

    async def leases(
        self,
        *,
        tenant: str | None = None,
        key: str | None = None,
        run_id: str | None = None,
        after: LeasePlace | None = None,
        limit: int = 100,
    ) -> Sequence[LeaseEntry]:
        """Holders and waiters, a page in order of tenant, key and position."""
        self._check_open()
        found = (
            entry
            for name in sorted(self._lines)
            if tenant in {None, name.tenant} and key in {None, name.key}
            for entry in self._in_order(self._lines[name])
            if run_id in {None, entry.run_id} and (after is None or (entry.tenant, entry.key, entry.position) > after)
        )
        return list(islice(found, limit))

    async def lease_line(self, run_id: str, node: str) -> LeaseLine | None:
        """What the waiter of a node has before it. None where it does not wait."""
        self._check_open()
        name = self._lease_keys.get((run_id, node))
        line = None if name is None else self._lines[name]
        if line is None or (run_id, node) not in line.waiters:
            return None
        holders = sorted(line.holders.values(), key=_position)
        return LeaseLine(
            ahead=list(line.waiters).index((run_id, node)),
            held=len(holders),
            holders=tuple(holders[:MAX_HOLDERS_TOLD]),
        )

    # --- commits ------------------------------------------------------------------------------------------------------

    def _write_leases(self, commit: Commit) -> None:
        if commit.forwards_to:
            self._hand_on_lease(commit.run_id, commit.forwards_to)
        for node in commit.leases_gone:
            self._remove_lease((commit.run_id, node))
        tenant = self._runs[commit.run_id].head.tenant
        for wait in sorted(commit.leases, key=lambda wait: wait.node):
            at = (commit.run_id, wait.node)
            self._remove_lease(at)
            name = LeaseKey(tenant, wait.key)
            self._lines.setdefault(name, Line()).waiters[at] = LeaseEntry(
                tenant=tenant,
                key=wait.key,
                run_id=commit.run_id,
                node=wait.node,
                generation=wait.generation,
                limit=wait.limit,
                position=next(self._lease_positions),
                since_us=self._clock.now_us(),
            )
            self._lease_keys[at] = name
            self._leases_to_look_at.add(_pair(name))

    def _hand_on_lease(self, run_id: str, successor_run_id: str) -> None:
        at = (run_id, RUN_LEASE)
        name = self._lease_keys.get(at)
        if name is None or at not in self._lines[name].holders:
            return
        holder = self._lines[name].holders.pop(at)
        successor = (successor_run_id, RUN_LEASE)
        self._lines[name].holders[successor] = msgspec.structs.replace(holder, run_id=successor_run_id, generation=0)
        del self._lease_keys[at]
        self._lease_keys[successor] = name

    def _remove_lease(self, at: NodeKey) -> None:
        name = self._lease_keys.pop(at, None)
        if name is None:
            return
        line = self._lines[name]
        line.remove(at)
        if not line.holders and not line.waiters:
            del self._lines[name]
        self._leases_to_look_at.add(_pair(name))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _tell_holder(self, holder: LeaseEntry) -> LeaseGrant:
        message = Message(
            id=message_id(holder.node, holder.fence),
            kind="lease",
            node=holder.node,
            payload={"run_id": holder.run_id, "fence": holder.fence, "generation": holder.generation},
        )
        receipt = self._add_message(holder.run_id, message, self._clock.now_us(), is_delivered=True)
        stored = msgspec.structs.replace(message, position=receipt.position, at_us=receipt.at_us)
        return LeaseGrant(holder.run_id, stored)

    def _in_order(self, line: Line) -> Sequence[LeaseEntry]:
        return list(merge(sorted(line.holders.values(), key=_position), line.waiters.values(), key=_position))


def _position(entry: LeaseEntry) -> int:
    return entry.position


def _pair(key: LeaseKey) -> tuple[str, str]:
    return key.tenant, key.key
