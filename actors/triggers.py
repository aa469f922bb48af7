"""What starts runs by itself: schedules and events, as the definitions say under `triggers`.

A trigger's start carries a key made of the trigger and its moment or event, so that however many hosts fire it, and
however often, one run begins. A schedule is moved on only after its start is durable.
"""

import logging
from collections.abc import Mapping
from typing import Final, Protocol

from ductor.actors.steps.wait import next_time_us
from ductor.actors.tick.activation import EVENT_ID_PREFIX
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.errors import DuctorError
from ductor.definitions.expressions import compile_expression, compile_template
from ductor.definitions.manifest import CompiledManifest, decode_manifest
from ductor.definitions.model import Trigger
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.errors import StoreUnavailableError
from ductor.journal.events import RunStatus
from ductor.journal.store import BusEvent, Head, RunFilter, StartTrigger, Store

MAX_CATCH_UP: Final = 100
"""Missed moments that `catchup: all` makes good in one go; older ones are skipped."""

MAX_OPEN_LOOKED_AT: Final = 200
SCHEDULES_PER_SWEEP: Final = 200

OPEN_STATUSES: Final[tuple[RunStatus, ...]] = ("pending", "running", "waiting", "paused")

_log = logging.getLogger(__name__)


class Starter(Protocol):
    """What starts and cancels runs."""

    async def start_triggered(
        self, definition: str, trigger: JsonValue, *, tenant: str, key: str, manifest_hash: str
    ) -> str:
        """Start a run, idempotent by key; its id."""
        ...

    async def cancel_overlapped(self, run_id: str) -> None:
        """Cancel a run that its successor replaces."""
        ...


def triggers_of(manifest: CompiledManifest, manifest_hash: str, tenant: str, now_us: int) -> list[StartTrigger]:
    """The triggers of a definition as the store keeps them, schedules beginning with their next moment."""
    return [
        StartTrigger(
            tenant=tenant,
            definition=manifest.name,
            manifest_hash=manifest_hash,
            index=index,
            event=trigger.event or "",
            next_at_us=None if trigger.cron is None else next_time_us(trigger.cron, trigger.timezone, now_us),
        )
        for index, trigger in enumerate(manifest.triggers)
    ]


class TriggerStarter:
    """Starts runs by events and schedules."""

    def __init__(self, store: Store, starter: Starter) -> None:
        self._store = store
        self._starter = starter
        self._manifests: dict[str, CompiledManifest] = {}

    async def start_by_event(self, event: BusEvent) -> None:
        """Start the runs that an event triggers. A trigger that fails to evaluate is logged and starts nothing."""
        for known in await self._store.event_triggers(event.tenant, event.name):
            manifest = await self._manifest(known.manifest_hash)
            if manifest is None or known.index >= len(manifest.triggers):
                continue
            variables: JsonObject = {"event": _event_value(event), "config": manifest.config}
            await self._start(known, manifest.triggers[known.index], variables, f"event/{known.index}/{event.event_id}")

    async def fire_schedules(self, now_us: int) -> None:
        """Start what is due, and move the schedules on."""
        for known in await self._store.due_schedules(now_us, SCHEDULES_PER_SWEEP):
            manifest = await self._manifest(known.manifest_hash)
            if manifest is None or known.next_at_us is None or known.index >= len(manifest.triggers):
                continue
            await self._fire(known, manifest.triggers[known.index], manifest.config, now_us)

    async def _fire(self, known: StartTrigger, trigger: Trigger, config: JsonObject, now_us: int) -> None:
        assert known.next_at_us is not None
        assert trigger.cron is not None
        moments, upcoming = _moments(trigger, known.next_at_us, now_us)
        for moment_us in moments:
            if trigger.overlap != "allow":
                unfinished = await self._unfinished(known)
                if unfinished and trigger.overlap == "queue":
                    return  # the schedule stays where it is until the run before has ended
                if unfinished and trigger.overlap == "skip":
                    continue
                for head in unfinished:
                    await self._starter.cancel_overlapped(head.run_id)
            variables: JsonObject = {"scheduled_at": format_timestamp_us(moment_us), "config": config}
            await self._start(known, trigger, variables, f"{_schedule_prefix(known)}{moment_us}")
        await self._store.advance_schedule(known, upcoming)

    async def _unfinished(self, known: StartTrigger) -> list[Head]:
        which = RunFilter(
            tenant=known.tenant, definition=known.definition, statuses=OPEN_STATUSES, limit=MAX_OPEN_LOOKED_AT
        )
        prefix = _schedule_prefix(known)
        return [head for head in await self._store.heads(which) if (head.key or "").startswith(prefix)]

    async def _start(
        self, known: StartTrigger, trigger: Trigger, variables: Mapping[str, JsonValue], default_key: str
    ) -> None:
        where = f"trigger {known.index} of {known.definition!r} of tenant {known.tenant!r}"
        try:
            if trigger.match is not None and not compile_expression(trigger.match).evaluate_boolean(variables):
                return
            payload = compile_template(trigger.input).render(variables)
            key = default_key if trigger.key is None else str(compile_template(trigger.key).render(variables))
            await self._starter.start_triggered(
                known.definition, payload, tenant=known.tenant, key=key, manifest_hash=known.manifest_hash
            )
        except StoreUnavailableError:
            raise
        except DuctorError as error:
            _log.error("%s did not start a run: %s", where, error)

    async def _manifest(self, manifest_hash: str) -> CompiledManifest | None:
        known = self._manifests.get(manifest_hash)
        if known is None:
            record = await self._store.manifest(manifest_hash)
            if record is None:
                return None
            known = self._manifests[manifest_hash] = decode_manifest(record.manifest)
        return known


def _schedule_prefix(known: StartTrigger) -> str:
    return f"schedule/{known.index}/"


def _moments(trigger: Trigger, first_us: int, now_us: int) -> tuple[list[int], int]:
    """The moments to start at, oldest first, and the first one yet to come."""
    assert trigger.cron is not None
    moments = [first_us]
    upcoming = next_time_us(trigger.cron, trigger.timezone, first_us)
    while upcoming <= now_us:
        moments.append(upcoming)
        if len(moments) > MAX_CATCH_UP:
            moments.pop(0)
        upcoming = next_time_us(trigger.cron, trigger.timezone, upcoming)
    if len(moments) > 1 and trigger.catchup == "none":
        return [], upcoming
    return (moments if trigger.catchup == "all" else moments[-1:]), upcoming


def _event_value(event: BusEvent) -> JsonObject:
    return {
        "name": event.name,
        "payload": event.payload,
        "id": event.event_id.removeprefix(EVENT_ID_PREFIX),
        "at": format_timestamp_us(event.published_at_us),
    }
