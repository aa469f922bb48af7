"""Filing waits for events with the bus, so that an event finds them.

A wait is filed under its event's name and, where its `match` has an equation, under the value that a part of the event
must equal. That value is computed once, so only one that can't change while the node is parked will do: filed under a
value of yesterday the wait would never be found. Where it may change, or fails to evaluate, the wait is filed under the
name alone and `match` decides when an event comes, as it does in any case.
"""

from contextlib import suppress

from ductor.actors.correlation_keys import key_text
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.expressions.correlation import Correlation
from ductor.definitions.program import HANDLERS, ProgramNode
from ductor.journal.codec import MAX_KEY_BYTES
from ductor.journal.commit import EventWait
from ductor.journal.events import SETTLED_NODE_STATUSES

CLOCK_TOLERANCE_US = 50_000
"""An event is dated by the database's clock, a wait by the host's, which follows it at intervals: so far they may be
apart. Without this an event published just after its wait could seem to have come just before it."""


SEAM_MS = 60_000
"""How long an event may be on its way to a run that is continued meanwhile, and still reach the one that does so."""


def hear_event(
    tick: Tick, node: ProgramNode, index: int, name: str, correlation: Correlation | None, *, lookback_ms: int = 0
) -> None:
    """File one event of a node that parks."""
    since_us = heard_since_us(tick.now_us, lookback_ms)
    tick.outbox.waits[node.ref, index] = _wait(tick, node.ref, index, name, correlation, since_us)


def hear_events_of_handlers(tick: Tick) -> None:
    """The run begins to hear the events of the definition's `on`. One that continues another one hears also those
    that were on their way to it; the store brings none twice to a chain."""
    since_us = heard_since_us(tick.now_us, SEAM_MS if tick.state.continued_from_run_id is not None else 0)
    for handler in tick.program.handlers:
        if handler.event is not None:
            tick.outbox.waits[HANDLERS, handler.index] = _wait(
                tick, HANDLERS, handler.index, handler.event, handler.correlation, since_us
            )


def heard_since_us(parked_at_us: int, lookback_ms: int = 0) -> int:
    """From when on events count for a wait that was parked then."""
    return parked_at_us - lookback_ms * 1_000 - CLOCK_TOLERANCE_US


def _wait(tick: Tick, ref: str, index: int, name: str, correlation: Correlation | None, since_us: int) -> EventWait:
    key_path, key_value = "", ""
    if correlation is not None and _is_fixed(tick, ref, correlation):
        with suppress(ExpressionError):  # `match` fails where it matters, and names its place in the document
            key_path, key_value = correlation.path, key_text(correlation.value.evaluate(tick.activation))
    return EventWait(node=ref, index=index, name=name, since_us=since_us, key_path=key_path, key_value=key_value)


def _is_fixed(tick: Tick, ref: str, correlation: Correlation) -> bool:
    """Whether the value stays what it is as long as the node is parked."""
    if not correlation.is_constant or len(correlation.path.encode()) > MAX_KEY_BYTES:
        return False
    program, names = tick.program, correlation.value.names
    if names.all_steps or not all(_is_settled(tick, step) for step in names.steps):
        return False
    patching = (source for key in correlation.context_keys for source in program.patched_by.get(key, ()))
    return all(source == ref or _is_settled(tick, source) for source in patching)


def _is_settled(tick: Tick, ref: str) -> bool:
    node = tick.state.nodes.get(ref)
    return node is not None and node.status in SETTLED_NODE_STATUSES
