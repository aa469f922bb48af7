"""What starts runs by itself: schedules and events, as the definitions say under `triggers`.

A trigger's start carries a key made of the trigger and its moment or event, so that however many hosts fire it, and
however often, one run begins. A schedule is moved on only after its start is durable, and an event counts as matched
only after its starts are. What the definition or the event is to blame for is logged and not tried again: a `match`
that fails, an input that does not fit. Whatever else fails is tried again by the next sweep.

Overlap: where a run of the schedule has not ended at the next moment, `skip` leaves that moment out, `queue` waits with
it, `cancel` cancels the run before, `allow` starts all the same. A run of this very moment, or of a later one, is no
reason to do anything: somebody was faster.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from ductor.actors.errors import ControlRefusedError, DefinitionNotFoundError, StartRefusedError
from ductor.actors.schedules import moments_due
from ductor.actors.start import MAX_KEY_BYTES
from ductor.actors.steps.wait import next_time_us
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.errors import DuctorError
from ductor.definitions.expressions import (
    Expression,
    ExpressionError,
    ExpressionSyntaxError,
    FunctionLibrary,
    Template,
    compile_expression,
    compile_template,
)
from ductor.definitions.manifest import CompiledManifest, decode_manifest
from ductor.definitions.model import Trigger
from ductor.definitions.triggers import TriggerError
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import encode_value
from ductor.journal.commit import BusEvent
from ductor.journal.errors import StoreUnavailableError, ValueRefusedError
from ductor.journal.records import StartTrigger
from ductor.journal.store import Store

MAX_OVERLAPPING: Final = 1_000
"""Unfinished runs of one schedule that are looked at."""

SCHEDULES_PER_SWEEP: Final = 200

MAX_DEFINITIONS_KEPT: Final = 1_000
"""Definitions whose triggers are kept compiled; the least recently used goes first."""

Blame = (ExpressionError, TriggerError, ValueRefusedError, StartRefusedError, DefinitionNotFoundError)
"""What trying again does not mend."""

_log = logging.getLogger(__name__)


class Starter(Protocol):
    """What starts and cancels runs."""

    async def start_triggered(
        self, definition: str, trigger: JsonValue, *, tenant: str, key: str, manifest_hash: str
    ) -> str:
        """Start a run, idempotent by key; its id."""
        ...

    async def cancel_overlapped(self, run_id: str) -> None:
        """Cancel a run that its successor replaces. Raises ControlRefusedError when it has ended."""
        ...


class CompiledTrigger(msgspec.Struct, frozen=True):
    """A trigger ready to be evaluated."""

    trigger: Trigger
    match: Expression | None
    input: Template
    key: Template | None


class CompiledTriggers(msgspec.Struct, frozen=True):
    """The triggers of a definition, in order, and what they see of it. None is one that does not compile here."""

    config: JsonObject
    triggers: tuple[CompiledTrigger | None, ...]


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
    """Starts runs by events and schedules. `functions` are those of the host, which expressions may use."""

    def __init__(self, store: Store, starter: Starter, functions: FunctionLibrary | None = None) -> None:
        self._store = store
        self._starter = starter
        self._functions = functions
        self._compiled: OrderedDict[str, CompiledTriggers] = OrderedDict()
        self._queued = 0

    async def start_by_event(self, event: BusEvent) -> None:
        """Start the runs that an event triggers. Raises what trying again may mend."""
        for known in await self._store.event_triggers(event.tenant, event.name):
            compiled, config = await self._compiled_trigger(known)
            if compiled is not None:
                key = _fitting(f"event/{known.index}/", event.event_id)
                await self._start(known, compiled, {"event": _event_value(event), "config": config}, key)

    async def fire_schedules(self, now_us: int) -> None:
        """Start what is due, and move the schedules on."""
        # schedules that wait for a run to end stay due, and must not keep the others out
        due = await self._store.due_schedules(now_us, SCHEDULES_PER_SWEEP + self._queued)
        self._queued = 0
        for known in due:
            try:
                compiled, config = await self._compiled_trigger(known)
                if compiled is not None:
                    self._queued += not await self._fire(known, compiled, config, now_us)
            except StoreUnavailableError:
                raise
            except DuctorError as error:  # one schedule must not keep others from their time
                _log.error("%s did not start a run and is tried again: %s", _named(known), error)

    async def _fire(self, known: StartTrigger, compiled: CompiledTrigger, config: JsonObject, now_us: int) -> bool:
        """Start what is due of one schedule. False when it waits for a run to end."""
        assert known.next_at_us is not None
        moments, upcoming = moments_due(compiled.trigger, known.next_at_us, now_us)
        for moment_us in moments:
            if compiled.trigger.overlap != "allow":
                unfinished = await self._unfinished_before(known, moment_us)
                if unfinished and compiled.trigger.overlap == "queue":
                    if moment_us != known.next_at_us and compiled.trigger.catchup == "all":
                        await self._store.advance_schedule(known, moment_us)
                    return False
                if unfinished and compiled.trigger.overlap == "skip":
                    continue
                await self._cancel(unfinished)
            variables: JsonObject = {"scheduled_at": format_timestamp_us(moment_us), "config": config}
            await self._start(known, compiled, variables, f"{_schedule_prefix(known)}{moment_us}")
        await self._store.advance_schedule(known, upcoming)
        return True

    async def _unfinished_before(self, known: StartTrigger, moment_us: int) -> list[str]:
        """Runs of the schedule's earlier moments that have not ended."""
        prefix = _schedule_prefix(known)
        found = await self._store.open_runs_by_key(known.tenant, known.definition, prefix, MAX_OVERLAPPING)
        moments = [(run_id, key.removeprefix(prefix)) for run_id, key in found]
        return [run_id for run_id, text in moments if text.isdecimal() and int(text) < moment_us]

    async def _cancel(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            try:
                await self._starter.cancel_overlapped(run_id)
            except ControlRefusedError as error:
                _log.debug("run %s ended before its successor could cancel it: %s", run_id, error)

    async def _start(
        self, known: StartTrigger, compiled: CompiledTrigger, variables: Mapping[str, JsonValue], default_key: str
    ) -> None:
        try:
            if compiled.match is not None and not compiled.match.evaluate_boolean(variables):
                return
            payload = compiled.input.render(variables)
            key = default_key if compiled.key is None else _key_text(compiled.key.render(variables))
            await self._starter.start_triggered(
                known.definition, payload, tenant=known.tenant, key=key, manifest_hash=known.manifest_hash
            )
        except Blame as error:
            _log.error("%s did not start a run: %s", _named(known), error)

    async def _compiled_trigger(self, known: StartTrigger) -> tuple[CompiledTrigger | None, JsonObject]:
        """A trigger ready to be evaluated, with the config of its definition; None where that can't be."""
        compiled = self._compiled.get(known.manifest_hash)
        if compiled is None:
            record = await self._store.manifest(known.manifest_hash)
            if record is None:
                return None, {}
            manifest = decode_manifest(record.manifest)
            compiled = CompiledTriggers(
                manifest.config, tuple(self._compile(known, each) for each in manifest.triggers)
            )
            self._compiled[known.manifest_hash] = compiled
            if len(self._compiled) > MAX_DEFINITIONS_KEPT:
                self._compiled.popitem(last=False)
        self._compiled.move_to_end(known.manifest_hash)
        triggers = compiled.triggers
        return (triggers[known.index] if known.index < len(triggers) else None), compiled.config

    def _compile(self, known: StartTrigger, trigger: Trigger) -> CompiledTrigger | None:
        functions = self._functions
        try:
            return CompiledTrigger(
                trigger=trigger,
                match=None if trigger.match is None else compile_expression(trigger.match, functions=functions),
                input=compile_template(trigger.input, functions=functions),
                key=None if trigger.key is None else compile_template(trigger.key, functions=functions),
            )
        except ExpressionSyntaxError as error:  # a function that another host has
            _log.error("%s starts no runs on this host: %s", _named(known), error)
            return None


def _named(known: StartTrigger) -> str:
    return f"trigger {known.index} of {known.definition!r} of tenant {known.tenant!r}"


def _schedule_prefix(known: StartTrigger) -> str:
    return f"schedule/{known.index}/"


def _fitting(prefix: str, text: str) -> str:
    """A key of these two; by the hash of the text where it would be too long."""
    key = prefix + text
    return key if len(key.encode()) <= MAX_KEY_BYTES else prefix + sha256(text.encode()).hexdigest()


def _key_text(value: JsonValue) -> str:
    """A start key: a text as it is, anything else as JSON. Raises StartRefusedError for null."""
    if value is None:
        raise StartRefusedError("start key", "`key` of the trigger gives null")
    return value if isinstance(value, str) else encode_value(value).decode()


def _event_value(event: BusEvent) -> JsonObject:
    return {
        "name": event.name,
        "payload": event.payload,
        "id": event.event_id,
        "at": format_timestamp_us(event.published_at_us),
    }
