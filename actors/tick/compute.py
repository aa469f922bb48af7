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

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ductor.actors.tick.advance import advance
from ductor.actors.tick.children import tell_parent
from ductor.actors.tick.controls import apply_control
from ductor.actors.tick.event_waits import hear_events_of_handlers
from ductor.actors.tick.fanout import judge_scatters
from ductor.actors.tick.messages import absorb
from ductor.actors.tick.payload import TickPayload
from ductor.actors.tick.reports import apply_report
from ductor.actors.tick.schedule import schedule
from ductor.actors.tick.straight import goes_straight
from ductor.actors.tick.timers import fire_due_timers, fire_timer
from ductor.actors.tick.working import Tick
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.commit import ControlDisposition, Payload
from ductor.journal.events import (
    AttemptFinished,
    ChildReported,
    ControlReceived,
    LeaseGranted,
    Message,
    MessageReceived,
    RunStarted,
    TickLimited,
    TimerFired,
)
from ductor.journal.state import RunState

MAX_INPUTS_PER_TICK = 256
"""Messages absorbed and timers fired in one tick at most; the rest follow in the next one."""


RecordedInput = MessageReceived | TimerFired | ChildReported | LeaseGranted
"""What phase 3 absorbs, as a row records it."""


class TickInputs(msgspec.Struct, kw_only=True, gc=False):
    """What a tick absorbs.

    Attributes:
        started: only for the first row of a run.
        control: at most one.
        results: attempt results in order of arrival.
        messages: what waits in the run's inbox, in order.
        recorded: what phase 3 absorbed in a row that is computed again, in their order there; instead of `messages` and
            of what is due by the clock.
        payloads: large values that results and messages name, with their text where it is yet to be stored.
    """

    started: RunStarted | None = None
    control: ControlReceived | None = None
    results: Sequence[AttemptFinished] = ()
    messages: Sequence[Message] = ()
    recorded: Sequence[RecordedInput] | None = None
    payloads: Sequence[tuple[Payload, JsonValue]] = ()

    @property
    def is_lone_result(self) -> bool:
        """Whether one attempt result is all that there is."""
        return len(self.results) == 1 and not (
            self.messages or self.recorded or self.control is not None or self.started is not None
        )


def compute(
    program: Program,
    state: RunState,
    inputs: TickInputs,
    now_us: int,
    library: Mapping[str, Program] | None = None,
) -> TickPayload:
    """Decide what follows from `inputs` at `now_us`. Time never runs backwards within a run.

    Args:
        program: what the run carries out, the body if it carries out one.
        library: programs of the definitions that the run may start (`RunState.definitions`), by manifest hash.
    """
    for message in inputs.messages:  # stored by the database's clock, which may be ahead of this host's
        now_us = max(now_us, message.at_us)
    tick = Tick(program, state, max(now_us, state.at_us), library)
    if state.status == "continued":
        return _passed_on(tick, inputs)
    for payload, value in inputs.payloads:
        tick.store(payload, value)
    decided = TickPayload(events=tick.events)
    if not inputs.is_lone_result or not goes_straight(tick, inputs.results[0]):
        _go_through_phases(tick, inputs, decided)
    if state.parent_waits_for and tick.events:
        tell_parent(tick)
    decided.dispatched = tick.dispatched
    if tick.withdrawn is not None:
        decided.withdrawn = tick.withdrawn
    if tick.payloads is not None:
        decided.payloads = tick.payloads
    decided.outbox = tick.filled_outbox
    decided.is_limited = state.paused_at_us is None and (bool(decided.unread) or _is_limited(tick))
    return decided


def _go_through_phases(tick: Tick, inputs: TickInputs, decided: TickPayload) -> None:
    state = tick.state
    if inputs.started is not None:
        tick.emit(inputs.started)
        hear_events_of_handlers(tick)
    elif state.version == 1 and state.status == "pending":
        hear_events_of_handlers(tick)  # whoever wrote the first row decided nothing
    if inputs.control is not None:
        refusal = apply_control(tick, inputs.control)
        verdict: Literal["applied", "refused"] = "refused" if refusal else "applied"
        decided.control = ControlDisposition(inputs.control.request_id, verdict, refusal)
    if state.paused_at_us is not None:
        decided.deferred, decided.unread = inputs.results, inputs.messages
        return
    if inputs.results:
        decided.superseded = advance(tick, inputs.results)
    if state.fanned:
        judge_scatters(tick)
    timers = state.timers
    if inputs.messages or inputs.recorded is not None or timers.due or timers.absolute:
        decided.unread = _take_in(tick, inputs)
    schedule(tick)


def _passed_on(tick: Tick, inputs: TickInputs) -> TickPayload:
    """What comes to a run after another one has continued it is for that one."""
    if inputs.control is not None or inputs.messages:
        tick.outbox.forward_to(tick.state.successor_run_id or "")
    return TickPayload(events=[], superseded=inputs.results, outbox=tick.filled_outbox)


def _is_limited(tick: Tick) -> bool:
    """Whether there is something left to do at once."""
    if tick.events and type(tick.events[-1]) is TickLimited:
        return True
    timers = tick.state.timers
    if not timers.due and not timers.absolute:
        return False
    earliest = timers.earliest()
    return earliest is not None and earliest[0] <= tick.now_us


def _take_in(tick: Tick, inputs: TickInputs) -> Sequence[Message]:
    """Phase 3. Returns the messages that did not fit into this tick."""
    if inputs.recorded is not None:
        for one in inputs.recorded:
            if isinstance(one, TimerFired):
                fire_timer(tick, one)
            elif isinstance(one, MessageReceived):
                absorb(tick, one.message)
            elif isinstance(one, ChildReported):
                apply_report(tick, one)
            else:
                tick.emit(one)
        return ()
    timers = tick.state.timers
    room = MAX_INPUTS_PER_TICK
    for index, message in enumerate(inputs.messages):
        if timers:
            room -= fire_due_timers(tick, room, before_us=message.at_us)
        if room == 0:
            return inputs.messages[index:]
        absorb(tick, message)
        room -= 1
    if timers:
        fire_due_timers(tick, room)
    return ()
