"""The event bus: brings events to the runs that wait for them, and starts runs by them.

An event is stored before it is matched, and a wait is stored with the row that parks its node. Either may be first, and
neither sees a transaction that has not committed. So both sides look: after its own commit the publishing side looks up
the waits, and the waiting side looks through the recent events. What both find is delivered once, because a delivery is
a message with the event's id. Each side marks its look as done; what a crash left undone is found by the sweeper.

An event finds its waits by name and, where the `match` has an equation, by the value it must equal; see
`ductor.actors.correlation_keys`. The number of look-ups depends on the definitions, not on the number of waiting runs.
"""

import logging
from collections.abc import Callable, Sequence

from ductor.actors.correlation_keys import key_text, value_at
from ductor.actors.triggers import TriggerStarter
from ductor.definitions.errors import DuctorError
from ductor.journal.commit import BusEvent
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.records import EventReceipt, UnscannedWait, WaitingRun
from ductor.journal.store import EVENT_WINDOW_MS, Store

WAITS_PER_PAGE = 1_000
EVENTS_PER_PAGE = 200
EVENTS_PER_SWEEP = 200
WAITS_PER_SWEEP = 500

UNMATCHED_AFTER_US = 1_000_000
"""An event that nobody has finished matching for so long is taken up by the sweeper."""

REMOVAL_INTERVAL_US = 60_000_000
EVENTS_PER_REMOVAL = 5_000
"""Events older than their window are removed so often, and so many at once."""

_log = logging.getLogger(__name__)


class EventBus:
    """Matches events and waits of all tenants. `wake` tells a run that a message waits for it."""

    def __init__(self, store: Store, triggers: TriggerStarter, wake: Callable[[str], None]) -> None:
        self._store = store
        self._triggers = triggers
        self._wake = wake
        self._removes_at_us = 0

    async def publish(self, event: BusEvent) -> EventReceipt:
        """Store an event and bring it to whom it concerns. A repeated id changes nothing.

        Once it is stored it counts as published: what can't be done about it now is done by the next sweep.
        """
        receipt = await self._store.publish_event(event)
        if receipt.verdict == "accepted":
            try:
                await self.match(_as_stored(event, receipt))
            except DuctorError as error:
                _log.warning("event %s of tenant %s is matched later: %s", event.event_id, event.tenant, error)
        return receipt

    async def match(self, event: BusEvent) -> None:
        """Bring a stored event to the waits that exist, start the runs it triggers, and mark it as matched."""
        keys = [("", "")]
        for path in await self._store.event_key_paths(event.tenant, event.name):
            found, value = value_at(event.payload, path) if path else (False, None)
            if found:
                keys.append((path, key_text(value)))
        after: tuple[str, str, int] | None = None
        while True:
            page = await self._store.waits_for_event(event.tenant, event.name, keys, after=after, limit=WAITS_PER_PAGE)
            await self._deliver(event, page)
            if len(page) < WAITS_PER_PAGE:
                break
            last = page[-1]
            after = (last.run_id, last.node, last.index)
        await self._triggers.start_by_event(event)
        await self._store.event_matched(event.tenant, event.event_id)

    async def scan(self, run_id: str | None = None) -> int:
        """Look through the recent events for waits that are new. How many waits there were."""
        waits = await self._store.unscanned_waits(WAITS_PER_SWEEP, run_id=run_id)
        for wait in waits:
            try:
                await self._scan_one(wait)
            except StoreUnavailableError:
                raise
            except DuctorError as error:  # one wait must not keep others from their events
                _log.error("events for step %s of run %s can't be looked up: %s", wait.wait.node, wait.run_id, error)
        return len(waits)

    async def sweep(self, now_us: int) -> None:
        """Take up what a crash left half done, and remove what is too old for anybody."""
        for event in await self._store.unmatched_events(now_us - UNMATCHED_AFTER_US, EVENTS_PER_SWEEP):
            try:
                await self.match(event)
            except StoreUnavailableError:
                raise
            except DuctorError as error:  # one event must not keep others from their waits
                _log.error("event %s of tenant %s can't be matched: %s", event.event_id, event.tenant, error)
        await self.scan()
        if now_us >= self._removes_at_us:
            removed = await self._store.remove_old_events(now_us - EVENT_WINDOW_MS * 1_000, EVENTS_PER_REMOVAL)
            if removed < EVENTS_PER_REMOVAL:
                self._removes_at_us = now_us + REMOVAL_INTERVAL_US

    async def _deliver(self, event: BusEvent, waits: Sequence[WaitingRun]) -> None:
        run_ids = list(dict.fromkeys(wait.run_id for wait in waits))
        if run_ids:
            for run_id in await self._store.deliver_event(event, run_ids):
                self._wake(run_id)

    async def _scan_one(self, waiting: UnscannedWait) -> None:
        wait, position = waiting.wait, 0
        while True:
            events = await self._store.events_since(
                waiting.tenant, wait.name, wait.since_us, after_position=position, limit=EVENTS_PER_PAGE
            )
            for event in events:
                if _fits(event, wait.key_path, wait.key_value):
                    await self._deliver(event, (WaitingRun(run_id=waiting.run_id, node=wait.node, index=wait.index),))
            if len(events) < EVENTS_PER_PAGE:
                break
            position = events[-1].position
        await self._store.wait_scanned(waiting.run_id, wait.node, wait.index, since_us=wait.since_us)


def _fits(event: BusEvent, key_path: str, key_value: str) -> bool:
    if not key_path:
        return True
    found, value = value_at(event.payload, key_path)
    return found and key_text(value) == key_value


def _as_stored(event: BusEvent, receipt: EventReceipt) -> BusEvent:
    return BusEvent(
        tenant=event.tenant,
        event_id=event.event_id,
        name=event.name,
        payload=event.payload,
        published_at_us=receipt.published_at_us,
        position=receipt.position,
        source=event.source,
    )
