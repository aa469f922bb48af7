"""The tick: a pure function of program, state, inputs and time.

Phases, in order:
0. one control, if one waits;
1. advance: attempt results;
2. fan-out: the settling of scatter parents belongs here, before external input is absorbed;
3. external input: due timers;
4. schedule: what has become runnable, and the end of the run.

The state is mutated and must be thrown away unless the payload is committed.
"""

import msgspec

from ductor.actors.tick.advance import advance
from ductor.actors.tick.inputs import apply_control, fire_due_timers, fire_timer
from ductor.actors.tick.payload import TickPayload
from ductor.actors.tick.schedule import schedule
from ductor.actors.tick.working import Tick
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.events import AttemptFinished, ControlReceived, RunStarted, TickLimited, TimerFired
from ductor.journal.state import RunState
from ductor.journal.store import ControlDisposition, Payload


class TickInputs(msgspec.Struct, kw_only=True):
    """What a tick absorbs.

    Attributes:
        started: only for the first row of a run.
        control: at most one.
        results: attempt results in order of arrival; the payloads that they name are in the state already.
        timers: None fires what is due by the tick's time; a list fires exactly those (recomputing a row).
    """

    started: RunStarted | None = None
    control: ControlReceived | None = None
    results: list[AttemptFinished] = msgspec.field(default_factory=list)
    timers: list[TimerFired] | None = None
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
    if inputs.control is not None:
        refusal = apply_control(tick, inputs.control)
        disposition = ControlDisposition(inputs.control.request_id, "refused" if refusal else "applied", refusal)
    superseded = advance(tick, inputs.results) if inputs.results else []
    if inputs.timers is not None:
        for timer in inputs.timers:
            fire_timer(tick, timer)
    elif state.timers:
        fire_due_timers(tick)
    schedule(tick)
    return TickPayload(
        events=tick.events,
        dispatched=tick.dispatched,
        withdrawn=tick.withdrawn,
        payloads=tick.payloads,
        superseded=superseded,
        control=disposition,
        is_limited=bool(tick.events) and isinstance(tick.events[-1], TickLimited),
    )
