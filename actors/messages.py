"""What actors tell each other."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ductor.actors.views import Started
from ductor.definitions.policies import Timeouts
from ductor.definitions.values import JsonValue
from ductor.journal.commit import Payload
from ductor.journal.events import AttemptFinished, Message, RunStarted
from ductor.journal.state import RunState

if TYPE_CHECKING:
    from ductor.actors.tick.payload import TickPayload
    from ductor.definitions.program import Program  # heavy, and whoever makes a message of it has it


class Assignment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One attempt to execute, as the commit that recorded it says. Told to a worker after that commit, never before.

    Attributes:
        token: the attempt's name (`journal.ids.attempt_token`), also the handler's idempotency key.
        attempt: number within the round, from 1; `iteration` is the round of `repeat`, from 0.
        lease_fence: of the step's lease, or of its run's where the step has none; 0 without a lease.
        total_deadline_us: when `timeouts.total_ms` of the round is over; None without one.
        is_redelivery: the attempt was dispatched before, by an earlier life of this or another host.
        is_replay: the handler is called for somebody who looks; the run neither knows nor gets the result.
        traceparent: of the attempt itself; empty where its run is not traced.
    """

    token: str
    run_id: str
    tenant: str
    definition: str
    node: str
    generation: int
    attempt: int
    iteration: int
    task: str
    input: JsonValue
    queue: str
    priority: int
    timeouts: Timeouts
    dispatched_at_us: int
    lease_fence: int = 0
    total_deadline_us: int | None = None
    is_redelivery: bool = False
    is_replay: bool = False
    traceparent: str = ""


class AttemptResult(msgspec.Struct, frozen=True, gc=False):
    """A worker's report. `payload` is the output's text where it is too large for an event (then `value` is the output
    itself and the event holds the reference)."""

    run_id: str
    token: str
    finished: AttemptFinished
    payload: Payload | None = None
    value: JsonValue = None


class Wake(msgspec.Struct, frozen=True):
    """Something happened that the run may want to act on: read it and what waits for it in the database anew.

    `reissues`: attempts that the journal calls running are handed to workers again, where none holds them. False where
    another live host may be executing them.
    """

    reissues: bool = True


class RunBegun(msgspec.Struct, frozen=True):
    """A run that another one of this host has started, as its first row has it: nothing needs to be read.

    Attributes:
        program: what it carries out; library: of the definitions that it may start, by manifest hash.
        first: what that row decides; None where it is for the coordinator to decide anything.
    """

    state: RunState
    program: "Program"
    library: "Mapping[str, Program]"
    first: "TickPayload | None" = None


class MessageArrived(msgspec.Struct, frozen=True):
    """A message for the run was stored just now, with the text of its payload where that is large."""

    message: Message
    payload: Payload | None = None


class TimerDue(msgspec.Struct, frozen=True):
    """The run's earliest deadline has come, by the database's clock."""


class Passivate(msgspec.Struct, frozen=True):
    """Leave memory if nothing is going on."""


class StartRun(msgspec.Struct, frozen=True):
    """Begin a new run: its first event, and where its large values go."""

    started: RunStarted
    payloads: tuple[tuple[Payload, JsonValue], ...]
    reply: asyncio.Future[Started]
