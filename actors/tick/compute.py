"""The tick: a pure function of program, state, inputs and time.

Phases, in order:
0. one control, if one waits;
1. advance: attempt results;
2. fan-out: the settling of scatter parents belongs here, before external input is absorbed;
3. external input: messages in order, and due timers, each where its time puts it;
4. schedule: what has become runnable, and the end of the run.

A paused run takes up controls only: its timers stand still, messages wait where they are, results are kept for later.
The state is mutated and must be thrown away unless the payload is committed.
"""

import msgspec

from ductor.actors.tick.advance import advance
from ductor.actors.tick.controls import apply_control
from ductor.actors.tick.messages import absorb, register_handlers
from ductor.actors.tick.payload import TickPayload
from ductor.actors.tick.schedule import schedule
from ductor.actors.tick.timers import fire_due_timers, fire_timer
from ductor.actors.tick.working import Tick
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.events import (
    AttemptFinished,
    ControlReceived,
    Message,
    MessageReceived,
    RunStarted,
    TickLimited,
    TimerFired,
)
from ductor.journal.state import RunState
from ductor.journal.store import ControlDisposition, Payload


class TickInputs(msgspec.Struct, kw_only=True):
    """What a tick absorbs.

    Attributes:
        started: only for the first row of a run.
        control: at most one.
        results: attempt results in order of arrival.
        messages: what waits in the run's inbox, in order.
        recorded: messages and timers of a row that is computed again, in their order there; instead of `messages` and
            of what is due by the clock.
        payloads: large values that results and messages name, with their text where it is yet to be stored.
    """

    started: RunStarted | None = None
    control: ControlReceived | None = None
    results: list[AttemptFinished] = msgspec.field(default_factory=list)
    messages: list[Message] = msgspec.field(default_factory=list)
    recorded: list[MessageReceived | TimerFired] | None = None
    payloads: list[tuple[Payload, JsonValue]] = msgspec.field(default_factory=list)


def compute(program: Program, state: RunState, inputs: TickInputs, now_us: int) -> TickPayload:
    """Decide what follows from `inputs` at `now_us`. Time never runs backwards within a run."""
    tick = Tick(program, state, max(now_us, state.at_us))
    for payload, value in inputs.payloads:
        tick.payloads.append(payload)
        state.payloads[payload.hash] = value
    disposition: ControlDisposition | None = None
    if inputs.started is not None:
        tick.emit(inputs.started)
        if program.handlers:
            register_handlers(tick)
    if inputs.control is not None:
        refusal = apply_control(tick, inputs.control)
        disposition = ControlDisposition(inputs.control.request_id, "refused" if refusal else "applied", refusal)
    superseded: list[AttemptFinished] = []
    deferred: list[AttemptFinished] = []
    if state.paused_at_us is not None:
        deferred = inputs.results
    else:
        superseded = advance(tick, inputs.results) if inputs.results else []
        _take_in(tick, inputs)
        schedule(tick)
    return TickPayload(
        events=tick.events,
        dispatched=tick.dispatched,
        withdrawn=tick.withdrawn,
        payloads=tick.payloads,
        superseded=superseded,
        deferred=deferred,
        outbox=tick.outbox,
        control=disposition,
        is_limited=bool(tick.events) and isinstance(tick.events[-1], TickLimited),
    )


def _take_in(tick: Tick, inputs: TickInputs) -> None:
    """Phase 3."""
    if inputs.recorded is not None:
        for one in inputs.recorded:
            if isinstance(one, TimerFired):
                fire_timer(tick, one)
            else:
                absorb(tick, one.message)
        return
    timers = tick.state.timers
    for message in inputs.messages:
        if timers:
            fire_due_timers(tick, before_us=message.at_us)
        absorb(tick, message)
    if timers:
        fire_due_timers(tick)
