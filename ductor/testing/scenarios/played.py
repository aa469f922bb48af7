"""What came of a scenario, read from the journals after the last life of its host."""

from collections.abc import Sequence

import msgspec

from ductor.actors.client import Client
from ductor.actors.start import DEFAULT_TENANT
from ductor.actors.views import HistoryRow, RunView
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.values import JsonValue
from ductor.handle import RunHandle
from ductor.journal.events import AttemptDispatched, EventEmitted
from ductor.journal.records import Head, RunFilter
from ductor.testing.calls import Call

MAX_RUNS_PLAYED = 1_000
"""Runs that one scenario may start; what comes after is not looked at."""


class EmittedEvent(msgspec.Struct, frozen=True):
    """An event that a run put on the bus."""

    name: str
    payload: JsonValue


class PlayedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run after everything has settled. `compensations` are the handlers of its undos, in the order in which these
    began, retries not counted."""

    view: RunView
    history: tuple[HistoryRow, ...]
    emitted: tuple[EmittedEvent, ...]
    compensations: tuple[str, ...]


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a scenario.

    Attributes:
        root: the run that the scenario started, None where it starts none, or could not.
        refusal: why it could not be started, None otherwise.
        runs: those that the scenario expects something of, by `definition#k`; without those that never started.
        statuses: of all runs, as `definition: status`, sorted.
        mistakes: what the scenario itself got wrong, and what was answered otherwise than it says.
    """

    root: PlayedRun | None
    refusal: str | None
    runs: dict[str, PlayedRun]
    statuses: tuple[str, ...]
    calls: tuple[Call, ...]
    mistakes: tuple[str, ...]

    @property
    def view(self) -> RunView | None:
        """The root's."""
        return None if self.root is None else self.root.view

    @property
    def history(self) -> tuple[HistoryRow, ...]:
        """The root's, empty where there is none."""
        return () if self.root is None else self.root.history


async def played_run(client: Client, run_id: str) -> PlayedRun:
    """Read a run."""
    handle = RunHandle(client, run_id)
    history = tuple(await handle.history(whole_chain=True))
    emitted = [
        EmittedEvent(event.name, await _payload(client, run_id, event))
        for row in history
        for event in row.events
        if isinstance(event, EventEmitted)
    ]
    compensations = tuple(
        event.task
        for row in history
        for event in row.events
        if isinstance(event, AttemptDispatched) and event.node.endswith(UNDO_SUFFIX) and event.attempt == 1
    )
    return PlayedRun(view=await handle.status(), history=history, emitted=tuple(emitted), compensations=compensations)


async def all_heads(client: Client) -> Sequence[Head]:
    """All runs in order of their start, at most `MAX_RUNS_PLAYED`. What starts at one moment is ordered by its key,
    which is the same in every playing; a run id is not."""
    heads = await client.runs(RunFilter(tenant=DEFAULT_TENANT, limit=MAX_RUNS_PLAYED))
    return sorted(heads, key=lambda head: (head.started_at_us, head.key or "", head.run_id))


def run_labelled(heads: Sequence[Head], label: str) -> str | None:
    """The id of `definition#k`, None where there is no such run."""
    definition, _, number = label.rpartition("#")
    of_definition = [head.run_id for head in heads if head.definition == definition]
    return of_definition[int(number) - 1] if int(number) <= len(of_definition) else None


async def _payload(client: Client, run_id: str, event: EventEmitted) -> JsonValue:
    if event.payload_ref is None:
        return event.payload
    text = await client.store.payload(run_id, event.payload_ref.hash)
    assert text is not None
    value: JsonValue = msgspec.json.decode(text)
    return value
