"""What the memory store keeps of events, and of the parked nodes that hear them."""

from collections.abc import Sequence
from heapq import merge
from itertools import count, islice, takewhile

import msgspec

from ductor.journal.admission import check_event
from ductor.journal.clock import Clock
from ductor.journal.commit import BusEvent, Commit, EventWait
from ductor.journal.memory_base import MemoryBase
from ductor.journal.records import EventReceipt, UnscannedWait, WaitingRun
from ductor.journal.sorted_items import SortedItems

_encode = msgspec.json.Encoder().encode
_decode_event = msgspec.json.Decoder(BusEvent).decode

EventKey = tuple[str, str]  # tenant, event id
WaitKey = tuple[str, str, int]  # run id, node, index


class MemoryBus(MemoryBase):
    """Events by id, name and position; waits by what they wait for."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._event_positions = count(1)
        self._events: dict[EventKey, bytes] = {}
        self._event_places: dict[EventKey, tuple[int, int]] = {}
        self._events_by_position: dict[int, EventKey] = {}
        self._events_by_name: dict[tuple[str, str], SortedItems[tuple[int, int]]] = {}
        self._unmatched: dict[EventKey, None] = {}
        self._waits: dict[WaitKey, EventWait] = {}
        self._wait_indexes: dict[tuple[str, str], set[int]] = {}
        self._waits_by_name: dict[tuple[str, str], dict[str, dict[str, SortedItems[WaitKey]]]] = {}
        self._unscanned: SortedItems[WaitKey] = SortedItems()

    # --- events -------------------------------------------------------------------------------------------------------

    async def publish_event(self, event: BusEvent) -> EventReceipt:
        """Store an event, idempotent by (tenant, event_id)."""
        check_event(event)
        self._check_open()
        is_new = self._add_event(event)
        published_at_us, position = self._event_places[event.tenant, event.event_id]
        return EventReceipt(
            event_id=event.event_id,
            verdict="accepted" if is_new else "duplicate",
            position=position,
            published_at_us=published_at_us,
        )

    async def unmatched_events(self, older_than_us: int, limit: int) -> Sequence[BusEvent]:
        """Events that nobody has finished matching, stored before this time, in order of position."""
        self._check_open()
        old = (key for key in self._unmatched if self._event_places[key][0] < older_than_us)
        return [_decode_event(self._events[key]) for key in islice(old, limit)]

    async def event_matched(self, tenant: str, event_id: str) -> None:
        """All waits that existed have been served."""
        self._check_open()
        self._unmatched.pop((tenant, event_id), None)

    async def remove_old_events(self, before_us: int, limit: int) -> int:
        """Remove matched events published before this time, of the `limit` oldest ones. How many were removed."""
        self._check_open()
        oldest = list(islice(self._events_by_position.values(), limit))
        old = [key for key in oldest if key not in self._unmatched and self._event_places[key][0] < before_us]
        for key in old:
            name = _decode_event(self._events.pop(key)).name
            place = self._event_places.pop(key)
            del self._events_by_position[place[1]]
            self._events_by_name[key[0], name].discard(place)
        return len(old)

    async def events_since(
        self, tenant: str, name: str, since_us: int, *, after_position: int, limit: int
    ) -> Sequence[BusEvent]:
        """Kept events of a name published at or after this time, in order of publication."""
        self._check_open()
        places = self._events_by_name.get((tenant, name))
        if places is None:
            return []
        last = self._events_by_position.get(after_position)
        after = (since_us, 0) if last is None else max((since_us, 0), self._event_places[last])
        return [
            _decode_event(self._events[self._events_by_position[position]])
            for _, position in islice(places.ascending(after), limit)
        ]

    # --- waits --------------------------------------------------------------------------------------------------------

    async def event_key_paths(self, tenant: str, name: str) -> Sequence[str]:
        """The distinct key paths of the waits for an event, in order."""
        self._check_open()
        return sorted(self._waits_by_name.get((tenant, name), ()))

    async def waits_for_event(
        self, tenant: str, name: str, keys: Sequence[tuple[str, str]], *, after: WaitKey | None, limit: int
    ) -> Sequence[WaitingRun]:
        """Waits whose (key_path, key_value) is one of `keys`, a page in order of (run_id, node, index)."""
        self._check_open()
        by_path = self._waits_by_name.get((tenant, name), {})
        found = [by_path.get(path, {}).get(value) for path, value in set(keys)]
        pages = (waits.ascending(after) for waits in found if waits is not None)
        return [WaitingRun(run_id=key[0], node=key[1], index=key[2]) for key in islice(merge(*pages), limit)]

    async def unscanned_waits(self, limit: int, *, run_id: str | None = None) -> Sequence[UnscannedWait]:
        """Waits for which the recent events were not looked through yet; of one run, or of all."""
        self._check_open()
        keys = self._unscanned.ascending(None if run_id is None else (run_id, "", -1))
        if run_id is not None:
            keys = takewhile(lambda key: key[0] == run_id, keys)
        return [
            UnscannedWait(run_id=key[0], tenant=self._runs[key[0]].head.tenant, wait=self._waits[key])
            for key in islice(keys, limit)
        ]

    async def wait_scanned(self, run_id: str, node: str, index: int, *, since_us: int | None = None) -> None:
        """The recent events have been looked through for this wait."""
        self._check_open()
        key = (run_id, node, index)
        if key in self._waits and since_us in {None, self._waits[key].since_us}:
            self._unscanned.discard(key)

    # --- commits ------------------------------------------------------------------------------------------------------

    def _write_waits(self, commit: Commit) -> None:
        for node in commit.waits_gone:
            for index in sorted(self._wait_indexes.get((commit.run_id, node), ())):
                self._remove_wait((commit.run_id, node, index))
        tenant = self._runs[commit.run_id].head.tenant
        for wait in commit.waits:
            key = (commit.run_id, wait.node, wait.index)
            self._remove_wait(key)
            self._waits[key] = wait
            self._wait_indexes.setdefault(key[:2], set()).add(wait.index)
            by_path = self._waits_by_name.setdefault((tenant, wait.name), {})
            by_path.setdefault(wait.key_path, {}).setdefault(wait.key_value, SortedItems()).add(key)
            self._unscanned.add(key)

    def _remove_wait(self, key: WaitKey) -> None:
        wait = self._waits.pop(key, None)
        if wait is None:
            return
        self._unscanned.discard(key)
        indexes = self._wait_indexes[key[:2]]
        indexes.discard(wait.index)
        if not indexes:
            del self._wait_indexes[key[:2]]
        by_path = self._waits_by_name[self._runs[key[0]].head.tenant, wait.name]
        by_value = by_path[wait.key_path]
        by_value[wait.key_value].discard(key)
        if not by_value[wait.key_value]:
            del by_value[wait.key_value]
        if not by_value:
            del by_path[wait.key_path]

    def _add_event(self, event: BusEvent) -> bool:
        """Store an event unless there is one of its id. True if it is new."""
        key = (event.tenant, event.event_id)
        if key in self._events:
            return False
        position, now_us = next(self._event_positions), self._clock.now_us()
        self._events[key] = _encode(msgspec.structs.replace(event, position=position, published_at_us=now_us))
        self._event_places[key] = (now_us, position)
        self._events_by_position[position] = key
        self._events_by_name.setdefault((event.tenant, event.name), SortedItems()).add((now_us, position))
        self._unmatched[key] = None
        return True
