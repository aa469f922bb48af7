"""What the memory store keeps of triggers."""

from collections.abc import Sequence

import msgspec

from ductor.journal.admission import check_trigger
from ductor.journal.clock import Clock
from ductor.journal.memory_base import MemoryBase
from ductor.journal.records import StartTrigger

DefinitionKey = tuple[str, str]  # tenant, definition


class MemoryTriggers(MemoryBase):
    """Triggers by definition, by event, and by when they fire."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._triggers: dict[DefinitionKey, dict[int, StartTrigger]] = {}
        self._hearing: dict[tuple[str, str], dict[DefinitionKey, None]] = {}
        self._scheduled: dict[DefinitionKey, None] = {}

    async def replace_triggers(self, tenant: str, definition: str, triggers: Sequence[StartTrigger]) -> None:
        """What starts runs of the definition from now on. A schedule of the same manifest keeps its next time."""
        for trigger in triggers:
            check_trigger(trigger)
        self._check_open()
        key = (tenant, definition)
        former = self._triggers.pop(key, {})
        for trigger in former.values():
            if trigger.event:
                self._hearing[tenant, trigger.event].pop(key, None)
        self._scheduled.pop(key, None)
        if triggers:
            self._triggers[key] = {new.index: _carried_on(former.get(new.index), new) for new in triggers}
        for trigger in triggers:
            if trigger.event:
                self._hearing.setdefault((tenant, trigger.event), {})[key] = None
            if trigger.next_at_us is not None:
                self._scheduled[key] = None

    async def event_triggers(self, tenant: str, event: str) -> Sequence[StartTrigger]:
        """Triggers of an event, in order of definition and index."""
        self._check_open()
        found = [
            trigger
            for key in self._hearing.get((tenant, event), ())
            for trigger in self._triggers[key].values()
            if trigger.event == event
        ]
        return sorted(found, key=lambda trigger: (trigger.definition, trigger.index))

    async def due_schedules(self, now_us: int, limit: int) -> Sequence[StartTrigger]:
        """Schedules whose time has come, the longest due first."""
        self._check_open()
        due = [
            (trigger.next_at_us, *key, trigger.index)
            for key in self._scheduled
            for trigger in self._triggers[key].values()
            if trigger.next_at_us is not None and trigger.next_at_us <= now_us
        ]
        return [self._triggers[tenant, name][index] for _, tenant, name, index in sorted(due)[:limit]]

    async def advance_schedule(self, trigger: StartTrigger, next_at_us: int) -> bool:
        """Move a schedule on; False where somebody else did, or its definition has changed."""
        self._check_open()
        triggers = self._triggers.get((trigger.tenant, trigger.definition), {})
        if trigger.next_at_us is None or triggers.get(trigger.index) != trigger:
            return False
        triggers[trigger.index] = msgspec.structs.replace(trigger, next_at_us=next_at_us)
        return True


def _carried_on(former: StartTrigger | None, new: StartTrigger) -> StartTrigger:
    if former is None or former.manifest_hash != new.manifest_hash or None in (former.next_at_us, new.next_at_us):
        return new
    return msgspec.structs.replace(new, next_at_us=former.next_at_us)
