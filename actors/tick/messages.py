"""Phase 3: messages from outside, in the order of the inbox.

- A signal goes to the parked node that has waited for its name the longest, and to handlers of the definition (`on`).
  Where nothing waits it stays in the run's inbox, and the next wait of that name takes it at once.
- An event goes to every parked node and handler that hears its name, if its `match` holds and it is not older than the
  wait looks back. Where there is none it passes by: the bus keeps it, not the run.
- Votes, case work and replies go to the parked node they name, if it is one that asks for such.
- What child runs tell goes its own way (`ductor.actors.tick.reports`).
What comes while the run is closing is undelivered, and the sender's receipt says so. A `match` that fails to evaluate
fails the step that has it. Who takes a message is decided before anything follows from it, so that the first of several
can't change what the others hear.
"""

from typing import Literal

import msgspec

from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.activation import StateActivation, message_value
from ductor.actors.tick.closing import begin_closing
from ductor.actors.tick.event_waits import heard_since_us
from ductor.actors.tick.leasing import absorb_grant
from ductor.actors.tick.reports import absorb_report
from ductor.actors.tick.settle import expression_failure, fail, withdraw
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import HANDLERS, ProgramHandler, ProgramNode
from ductor.definitions.values import JsonObject
from ductor.journal.commit import MessageDisposition
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import ContextPatched, ErrorInfo, Message, MessageReceived, MessageTaken

MAX_MESSAGES_PER_NODE = 10_000
"""Messages that one parked node may have taken. Of what is sent to it by name the next is undelivered; the next event
fails an event set."""

Disposition = Literal["buffered", "consumed", "undelivered", "forwarded"]

ANSWERS = {"vote": "approval", "case": "human_loop", "reply": "interaction", "digest": "digest"}
"""Which type of step each kind of message is for that names its node."""


class Hearing(msgspec.Struct):
    """Who hears an event.

    Attributes:
        takers: parked nodes, each with the events of its set that it is.
        handlers: of the definition.
        failed: steps whose `match` failed, with the error.
        failed_handler: the first handler whose `match` failed, with the error.
    """

    takers: dict[str, tuple[int, ...]] = msgspec.field(default_factory=dict)
    handlers: list[ProgramHandler] = msgspec.field(default_factory=list)
    failed: list[tuple[ProgramNode, ErrorInfo]] = msgspec.field(default_factory=list)
    failed_handler: tuple[ProgramHandler, ErrorInfo] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the event passes by."""
        return not (self.takers or self.handlers or self.failed or self.failed_handler)


def absorb(tick: Tick, message: Message) -> None:
    """Take up one message."""
    state = tick.state
    if message.kind == "child":
        absorb_report(tick, message)
    elif message.kind == "lease":
        absorb_grant(tick, message)
    elif state.is_terminal or state.closing is not None:
        _dispose(tick, message, "undelivered")
    elif message.kind in ANSWERS:
        _absorb_answer(tick, message)
    elif message.kind == "signal":
        _absorb_signal(tick, message)
    else:
        _absorb_event(tick, message)


def take_buffered(tick: Tick, ref: str) -> None:
    """A node has parked: the signal that it waits for may have come before."""
    names = tick.state.nodes[ref].names
    for message in tick.state.inbox.values():
        if message.kind == "signal" and f"signal:{message.name}" in names:
            tick.emit(MessageTaken(message_id=message.id, nodes=(ref,)))
            _dispose(tick, message, "consumed")
            _tell(tick, ref, message)
            return


def _absorb_answer(tick: Tick, message: Message) -> None:
    node = tick.state.nodes.get(message.node)
    if (
        node is not None
        and node.status == "waiting"
        and node.waiting != "lease"
        and tick.program.node(message.node).step.type_name == ANSWERS[message.kind]
        and len(node.messages) < MAX_MESSAGES_PER_NODE
    ):
        _receive(tick, message, {message.node: ()})
        _tell(tick, message.node, message)
    else:
        _dispose(tick, message, "undelivered")


def _absorb_signal(tick: Tick, message: Message) -> None:
    waiting = next(iter(tick.state.listeners.get(f"signal:{message.name}", ())), None)
    handlers = [handler for handler in tick.program.handlers if handler.signal == message.name]
    if waiting is None and not handlers:
        tick.emit(MessageReceived(message=message))
        _dispose(tick, message, "buffered")
        return
    _receive(tick, message, {} if waiting is None else {waiting: ()})
    _handle_all(tick, handlers, message)
    if waiting is not None:
        _tell(tick, waiting, message)


def _absorb_event(tick: Tick, message: Message) -> None:
    hearing = _hearing(tick, message)
    if hearing.is_empty:
        _dispose(tick, message, "consumed")
        return
    _receive(tick, message, hearing.takers)
    for node, error in hearing.failed:
        if tick.node_state(node).status == "waiting":
            fail(tick, node, error)
    if hearing.failed_handler is not None:
        handler, error = hearing.failed_handler
        begin_closing(tick, "failed", error=error, reason=f"`on[{handler.index}].match` failed")
    _handle_all(tick, hearing.handlers, message)
    for ref in hearing.takers:
        _tell(tick, ref, message)


def _hearing(tick: Tick, message: Message) -> Hearing:
    state, hearing = tick.state, Hearing()
    activation = _activation(tick, message)
    is_continuing = state.continued_from_run_id is not None  # what reaches it was meant for its chain
    for ref in state.listeners.get(f"event:{message.name}", ()):
        node = tick.program.nodes[ref]
        try:
            parts = BEHAVIOURS[node.step.type_name].hears(tick, node, message, activation)
        except ExpressionError as error:
            hearing.failed.append((node, expression_failure(error)))
            continue
        if parts is None:
            continue
        if len(state.nodes[ref].messages) < MAX_MESSAGES_PER_NODE:
            hearing.takers[ref] = parts
        else:
            text = f"step {ref}: more than {MAX_MESSAGES_PER_NODE} events have come"
            hearing.failed.append((node, ErrorInfo(type="TooManyEvents", message=text, retryable=False)))
    for handler in tick.program.handlers:
        if handler.event == message.name and (is_continuing or message.at_us >= heard_since_us(state.started_at_us)):
            try:
                if handler.match is None or handler.match.evaluate_boolean(activation):
                    hearing.handlers.append(handler)
            except ExpressionError as error:
                hearing.failed_handler = hearing.failed_handler or (handler, expression_failure(error))
    return hearing


def _receive(tick: Tick, message: Message, takers: dict[str, tuple[int, ...]]) -> None:
    tick.emit(MessageReceived(message=message))
    parts = {ref: places for ref, places in takers.items() if places}
    tick.emit(MessageTaken(message_id=message.id, nodes=tuple(takers), parts=parts))
    _dispose(tick, message, "consumed")


def _tell(tick: Tick, ref: str, message: Message) -> None:
    """The node has the message, unless what came of it so far has cancelled the node."""
    if tick.state.nodes[ref].status != "waiting":
        return
    node = tick.program.nodes[ref]
    try:
        BEHAVIOURS[node.step.type_name].on_message(tick, node, message)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))


def _handle_all(tick: Tick, handlers: list[ProgramHandler], message: Message) -> None:
    for handler in handlers:
        if tick.state.is_terminal or tick.state.closing is not None:
            return
        try:
            activation = _activation(tick, message)
            patch: JsonObject = {
                key: tick.keep_inline(template.render(activation), f"effect {key} of `on[{handler.index}]`")
                for key, template in handler.effects.items()
            }
        except (ExpressionError, ValueRefusedError) as error:
            reason = f"`on[{handler.index}].effects` failed"
            begin_closing(tick, "failed", error=expression_failure(error), reason=reason)
            return
        if patch:
            tick.emit(ContextPatched(node=HANDLERS, patch=patch))
        for ref in handler.cancels:
            withdraw(tick, tick.program.nodes[ref])


def _activation(tick: Tick, message: Message) -> StateActivation:
    return tick.activation.with_own({"event": message_value(tick.state, message)})


def _dispose(tick: Tick, message: Message, disposition: Disposition) -> None:
    tick.outbox.messages[message.id] = MessageDisposition(message.id, disposition)
