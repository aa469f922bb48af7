"""`emit` and `signal`: what a step sends with the row that settles it as succeeded.

Everything is evaluated before anything is decided, so that a failing expression fails the step and sends nothing. Ids
are derived from run, node and generation: a redriven step that succeeds again sends again, a replayed row does not.
"""

import uuid

from ductor.actors.tick.working import Tick
from ductor.definitions.program import ProgramNode
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.codec import MAX_INLINE_BYTES
from ductor.journal.commit import BusEvent, SentMessage
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import EventEmitted, Message, SignalSent
from ductor.journal.store import MAX_EVENT_PAYLOAD_BYTES

Sending = tuple[EventEmitted, BusEvent] | tuple[SignalSent, SentMessage]


def prepared(tick: Tick, node: ProgramNode, own: JsonObject) -> list[Sending]:
    """Evaluate what the step sends. Raises ExpressionError, ValueRefusedError."""
    activation = tick.variables(node, own)
    state = tick.state
    base = f"{state.run_id}/{node.ref}/{max(tick.node_state(node).generation, state.reopened_count)}"
    sendings: list[Sending] = []
    for index, emitted in enumerate(node.step.emit):
        when = node.expressions.get(f"emit[{index}].when")
        if when is not None and not when.evaluate_boolean(activation):
            continue
        event_id = f"{base}/{index}"
        what = f"payload of event {emitted.event} of step {node.ref}"
        payload = node.templates[f"emit[{index}].payload"].render(activation)
        stored = tick.admit(payload, what)
        if stored.size_bytes > MAX_EVENT_PAYLOAD_BYTES:
            raise ValueRefusedError(what, "", f"{stored.size_bytes} bytes, the limit is {MAX_EVENT_PAYLOAD_BYTES}")
        event = EventEmitted(
            node=node.ref, event_id=event_id, name=emitted.event, payload=stored.inline, payload_ref=stored.ref
        )
        source = f"{state.run_id}/{node.ref}"
        bus = BusEvent(
            tenant=state.tenant,
            event_id=event_id,
            name=emitted.event,
            payload=stored.value,
            published_at_us=tick.now_us,
            source=source,
        )
        sendings.append((event, bus))
    for index, sent in enumerate(node.step.signal):
        run_id = _run_id(node.templates[f"signal[{index}].run"].render(activation), node.ref)
        what = f"payload of signal {sent.name} of step {node.ref}"
        stored = tick.admit(node.templates[f"signal[{index}].payload"].render(activation), what)
        if stored.ref is not None:
            raise ValueRefusedError(
                what, "", f"{stored.size_bytes} bytes, a sent signal has at most {MAX_INLINE_BYTES}"
            )
        message_id = f"{base}/signal/{index}"
        signal = SignalSent(node=node.ref, run_id=run_id, message_id=message_id, name=sent.name, payload=stored.inline)
        message = Message(id=message_id, kind="signal", name=sent.name, payload=stored.value, by=f"run:{state.run_id}")
        sendings.append((signal, SentMessage(run_id, message)))
    return sendings


def send(tick: Tick, sending: Sending) -> None:
    """Send one thing, with the row."""
    event, row = sending
    tick.emit(event)
    if isinstance(row, BusEvent):
        tick.outbox.published.append(row)
    else:
        tick.outbox.sent.append(row)


def _run_id(value: JsonValue, ref: str) -> str:
    try:
        return str(uuid.UUID(str(value)))
    except ValueError:
        raise ValueRefusedError(f"run of a signal of step {ref}", "", f"{value!r} is no run id") from None
