"""The event bus, and the waits for its events; publishing also inside the caller's own transaction."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_event
from ductor.journal.commit import BusEvent, EventWait
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.ids import is_run_id
from ductor.journal.postgres.callers import CallersConnection
from ductor.journal.postgres.database import ATTEMPTS, Database, Fetch, fetch_on
from ductor.journal.postgres.rows import FIRST_RUN_ID, json_text
from ductor.journal.records import EventReceipt, UnscannedWait, WaitingRun

_decode_event = msgspec.json.Decoder(BusEvent).decode
_decode_wait = msgspec.json.Decoder(EventWait).decode


async def publish_event_on(connection: CallersConnection, event: BusEvent) -> EventReceipt:
    """As `PostgresStore.publish_event`, in the caller's transaction: the event is there once that commits.

    It is matched when a host next looks for events that nobody has matched.

    Raises ValueRefusedError, and what the driver raises.
    """
    return await _publish(fetch_on(connection), event)


class Bus:
    """Events of tenants, and what waits for them."""

    _database: Database

    async def publish_event(self, event: BusEvent) -> EventReceipt:
        """Store an event, idempotent by (tenant, event_id)."""
        return await _publish(self._database.fetch, event)

    async def unmatched_events(self, older_than_us: int, limit: int) -> Sequence[BusEvent]:
        """Events that nobody has finished matching, stored before this time, in order of position."""
        rows = await self._database.fetch("unmatched_events", older_than_us=older_than_us, limit=limit)
        return [_decode_event(row[0]) for row in rows]

    async def event_matched(self, tenant: str, event_id: str) -> None:
        """All waits that existed have been served."""
        await self._database.fetch("event_matched", tenant=tenant, event_id=event_id)

    async def remove_old_events(self, before_us: int, limit: int) -> int:
        """Remove matched events published before this time, of the `limit` oldest ones. How many were removed."""
        row = await self._database.fetch_row("remove_old_events", before_us=before_us, limit=limit)
        assert row is not None
        return int(row[0])

    async def events_since(
        self, tenant: str, name: str, since_us: int, *, after_position: int, limit: int
    ) -> Sequence[BusEvent]:
        """Kept events of a name published at or after this time, in order of publication."""
        rows = await self._database.fetch(
            "events_since", tenant=tenant, name=name, since_us=since_us, after_position=after_position, limit=limit
        )
        return [_decode_event(row[0]) for row in rows]

    async def event_key_paths(self, tenant: str, name: str) -> Sequence[str]:
        """The distinct key paths of the waits for an event, in order."""
        return [row[0] for row in await self._database.fetch("event_key_paths", tenant=tenant, name=name)]

    async def waits_for_event(
        self, tenant: str, name: str, keys: Sequence[tuple[str, str]], *, after: tuple[str, str, int] | None, limit: int
    ) -> Sequence[WaitingRun]:
        """Waits whose (key_path, key_value) is one of `keys`, a page in order of (run_id, node, index)."""
        distinct = sorted(set(keys))
        after_run_id, after_node, after_index = after or (FIRST_RUN_ID, "", -1)
        rows = await self._database.fetch(
            "waits_for_event",
            tenant=tenant,
            name=name,
            key_paths=[path for path, _ in distinct],
            key_values=[value for _, value in distinct],
            after_run_id=after_run_id,
            after_node=after_node,
            after_index=after_index,
            limit=limit,
        )
        return [WaitingRun(run_id=row[0], node=row[1], index=row[2]) for row in rows]

    async def unscanned_waits(self, limit: int, *, run_id: str | None = None) -> Sequence[UnscannedWait]:
        """Waits for which the recent events were not looked through yet; of one run, or of all."""
        if run_id is None:
            rows = await self._database.fetch("unscanned_waits", limit=limit)
        elif is_run_id(run_id):
            rows = await self._database.fetch("unscanned_waits_of_run", run_id=run_id, limit=limit)
        else:
            rows = []
        return [UnscannedWait(run_id=row[0], tenant=row[1], wait=_decode_wait(row[2])) for row in rows]

    async def wait_scanned(self, run_id: str, node: str, index: int, *, since_us: int | None = None) -> None:
        """The recent events have been looked through for this wait."""
        if is_run_id(run_id):
            await self._database.fetch("wait_scanned", run_id=run_id, node=node, index=index, since_us=since_us)


async def _publish(fetch: Fetch, event: BusEvent) -> EventReceipt:
    check_event(event)
    for _ in range(ATTEMPTS):
        rows = await fetch(
            "publish_event",
            tenant=event.tenant,
            event_id=event.event_id,
            name=event.name,
            payload=json_text(event.payload),
            source=event.source,
        )
        if rows:
            is_new, position, published_at_us = rows[0]
            return EventReceipt(
                event_id=event.event_id,
                verdict="accepted" if is_new else "duplicate",
                position=position,
                published_at_us=published_at_us,
            )
        # stored by somebody else while the statement ran: the next one sees it
    raise StoreUnavailableError(f"event {event.event_id} was stored and removed by others {ATTEMPTS} times")
