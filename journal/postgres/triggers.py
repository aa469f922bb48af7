"""Triggers: what starts runs by itself."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_trigger
from ductor.journal.postgres.database import Database, fetch_on
from ductor.journal.records import StartTrigger

_decode = msgspec.json.Decoder(StartTrigger).decode


class Triggers:
    """Triggers by definition, by event, and by when they fire."""

    _database: Database

    async def replace_triggers(self, tenant: str, definition: str, triggers: Sequence[StartTrigger]) -> None:
        """What starts runs of the definition from now on. A schedule of the same manifest keeps its next time."""
        for trigger in triggers:
            check_trigger(trigger)
        ordered = sorted(triggers, key=lambda trigger: trigger.index)
        async with self._database.transaction() as connection:
            fetch = fetch_on(connection)
            await fetch("lock_triggers", tenant=tenant, definition=definition)
            await fetch(
                "replace_triggers",
                tenant=tenant,
                definition=definition,
                indexes=[trigger.index for trigger in ordered],
                manifest_hashes=[trigger.manifest_hash for trigger in ordered],
                events=[trigger.event for trigger in ordered],
                next_at_us=[trigger.next_at_us for trigger in ordered],
            )

    async def event_triggers(self, tenant: str, event: str) -> Sequence[StartTrigger]:
        """Triggers of an event, in order of definition and index."""
        return [_decode(row[0]) for row in await self._database.fetch("event_triggers", tenant=tenant, event=event)]

    async def due_schedules(self, now_us: int, limit: int) -> Sequence[StartTrigger]:
        """Schedules whose time has come, the longest due first."""
        return [_decode(row[0]) for row in await self._database.fetch("due_schedules", now_us=now_us, limit=limit)]

    async def open_runs_by_key(
        self, tenant: str, definition: str, key_prefix: str, limit: int
    ) -> Sequence[tuple[str, str]]:
        """Id and start key of runs that have not ended and whose key begins so, in order of id."""
        rows = await self._database.fetch(
            "open_runs_by_key", tenant=tenant, definition=definition, key_prefix=key_prefix, limit=limit
        )
        return [(row[0], row[1]) for row in rows]

    async def advance_schedule(self, trigger: StartTrigger, next_at_us: int) -> bool:
        """Move a schedule on; False where somebody else did, or its definition has changed."""
        # sent once: a second time would not know its own first
        async with self._database.transaction() as connection:
            rows = await fetch_on(connection)(
                "advance_schedule",
                tenant=trigger.tenant,
                definition=trigger.definition,
                index=trigger.index,
                manifest_hash=trigger.manifest_hash,
                former_next_at_us=trigger.next_at_us,
                next_at_us=next_at_us,
            )
        return bool(rows)
