"""Proves a run's rows one by one: the chain holds, each row can be computed again from the state before it and its own
inputs, and the state that computing leaves is the one that folding gives.
"""

from collections.abc import Callable, Sequence

import msgspec

from ductor.actors.tick.compute import TickInputs, compute
from ductor.definitions.program import Program
from ductor.definitions.values import JsonValue
from ductor.journal.codec import decode_events, decode_state, encode_events, encode_state
from ductor.journal.errors import BrokenChainError
from ductor.journal.events import (
    INPUT_EVENTS,
    AnyEvent,
    AttemptFinished,
    ControlReceived,
    MessageReceived,
    RunStarted,
    TickLimited,
    TimerFired,
)
from ductor.journal.fold import finish_row, fold_row
from ductor.journal.records import Transition
from ductor.journal.replay import verify_chain
from ductor.journal.state import RunState


def comparable(state: RunState) -> bytes:
    """What two states must agree in: all but the scheduler's own order of looking at things."""
    return encode_state(msgspec.structs.replace(state, touched=type(state.touched)(), agenda=[]))


def prove_rows(
    program: Program,
    run_id: str,
    rows: Sequence[Transition],
    payloads: dict[str, JsonValue],
    report: Callable[[str, str], None],
) -> RunState:
    """Prove all rows of a run; `report` takes rule and what is wrong. The state after the last one."""
    try:
        verify_chain(run_id, rows)
    except BrokenChainError as error:
        report("chain", str(error))
    state = RunState(run_id=run_id)
    for row in rows:
        events = decode_events(row.events, run_id=run_id, version=row.version)
        again = decode_state(encode_state(state))
        again.payloads = dict(payloads)
        if not _is_start_of_a_client(events):
            computed = recomputed(program, again, events, row.at_us)
            if computed != row.events:
                report("recompute", f"version {row.version} computed again is {computed!r}, it was {row.events!r}")
        fold_row(state, row.version, row.at_us, row.hash, events)
        if not _is_start_of_a_client(events):
            finish_row(again, row.hash)
            if comparable(again) != comparable(state):
                report("recompute", f"the state after version {row.version} is another one when it is computed again")
    state.payloads = dict(payloads)
    return state


def recomputed(program: Program, before: RunState, events: Sequence[AnyEvent], at_us: int) -> bytes:
    """The row that the tick makes of the recorded inputs. `before` becomes the state after it."""
    inputs = [event for event in events if isinstance(event, INPUT_EVENTS)]
    again = compute(
        program,
        before,
        TickInputs(
            started=next((event for event in inputs if isinstance(event, RunStarted)), None),
            control=next((event for event in inputs if isinstance(event, ControlReceived)), None),
            results=[event for event in inputs if isinstance(event, AttemptFinished)],
            recorded=[event for event in inputs if isinstance(event, TimerFired | MessageReceived)],
        ),
        at_us,
    )
    return encode_events(again.events)


def _is_start_of_a_client(events: Sequence[AnyEvent]) -> bool:
    """A client writes the first row without deciding anything: the tick did not make it."""
    return len(events) == 2 and isinstance(events[0], RunStarted) and isinstance(events[1], TickLimited)
