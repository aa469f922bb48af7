"""Phase 3: messages from outside, in the order of the inbox.

- A signal goes to the parked node that has waited for its name the longest, and to handlers of the definition (`on`).
  Where nothing waits it stays in the run's inbox, and the next wait of that name takes it at once.
- An event goes to every parked node and handler that hears its name, if its `match` holds and it is not older than the
  wait looks back. Where there is none it passes by: the bus keeps it, not the run.
- Votes, case work and replies go to the parked node they name.
What comes while the run is closing is undelivered, and the sender's receipt says so. A `match` that fails to evaluate
fails the step that has it.
"""

from ductor.actors.correlation_keys import key_text
from ductor.actors.steps import BEHAVIOURS
from ductor.actors.tick.activation import message_value
from ductor.actors.tick.closing import begin_closing
from ductor.actors.tick.outbox import HANDLERS
from ductor.actors.tick.settle import expression_failure, fail, withdraw
from ductor.actors.tick.working import Tick
from ductor.definitions.expressions import ExpressionError
from ductor.definitions.program import ProgramHandler
from ductor.definitions.values import JsonObject
from ductor.journal.errors import ValueRefusedError
from ductor.journal.events import ContextPatched, Message, MessageReceived, MessageTaken
from ductor.journal.store import EventWait, MessageDisposition

DIRECTED_KINDS = frozenset({"vote", "case", "reply"})


def absorb(tick: Tick, message: Message) -> None:
    """Take up one message."""
    state = tick.state
    if state.is_terminal or state.closing is not None:
        _dispose(tick, message, "undelivered")
    elif message.kind in DIRECTED_KINDS:
        node = state.nodes.get(message.node)
        if node is not None and node.is_listening and message.node in tick.program.nodes:
            _receive(tick, message, (message.node,), ())
        else:
            _dispose(tick, message, "undelivered")
    elif message.kind == "signal":
        waiting = next(iter(state.listeners.get(f"signal:{message.name}", ())), None)
        handlers = tuple(handler for handler in tick.program.handlers if handler.signal == message.name)
        if waiting is None and not handlers:
            tick.emit(MessageReceived(message=message))
            _dispose(tick, message, "buffered")
        else:
            _receive(tick, message, () if waiting is None else (waiting,), handlers)
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


def register_handlers(tick: Tick) -> None:
    """The run begins to hear the events of the definition's `on`."""
    for handler in tick.program.handlers:
        if handler.event is not None:
            key_path, key_value = "", ""
            if handler.correlation is not None:
                key_path = handler.correlation.path
                key_value = key_text(handler.correlation.value.evaluate(tick.activation))
            tick.outbox.waits[HANDLERS, handler.index] = EventWait(
                node=HANDLERS,
                index=handler.index,
                name=handler.event,
                since_us=tick.now_us,
                key_path=key_path,
                key_value=key_value,
            )


def _absorb_event(tick: Tick, message: Message) -> None:
    state = tick.state
    own: JsonObject = {"event": message_value(tick.state, message)}
    activation = tick.activation.with_own(own)
    takers: list[str] = []
    for ref in tuple(state.listeners.get(f"event:{message.name}", ())):
        node = tick.program.nodes[ref]
        try:
            if BEHAVIOURS[node.step.type_name].hears(tick, node, message, activation):
                takers.append(ref)
        except ExpressionError as error:
            fail(tick, node, expression_failure(error))
    handlers: list[ProgramHandler] = []
    for handler in tick.program.handlers:
        if handler.event == message.name:
            try:
                if handler.match is None or handler.match.evaluate_boolean(activation):
                    handlers.append(handler)
            except ExpressionError as error:
                _fail_run(tick, error, f"`on[{handler.index}].match` failed")
    if (takers or handlers) and not state.is_terminal:
        _receive(tick, message, tuple(takers), tuple(handlers))
    else:
        _dispose(tick, message, "consumed")


def _receive(tick: Tick, message: Message, refs: tuple[str, ...], handlers: tuple[ProgramHandler, ...]) -> None:
    tick.emit(MessageReceived(message=message))
    tick.emit(MessageTaken(message_id=message.id, nodes=refs))
    _dispose(tick, message, "consumed")
    for handler in handlers:
        _handle(tick, handler, message)
    for ref in refs:
        if tick.state.nodes[ref].status == "waiting":
            _tell(tick, ref, message)


def _tell(tick: Tick, ref: str, message: Message) -> None:
    node = tick.program.nodes[ref]
    try:
        BEHAVIOURS[node.step.type_name].on_message(tick, node, message)
    except (ExpressionError, ValueRefusedError) as error:
        fail(tick, node, expression_failure(error))


def _handle(tick: Tick, handler: ProgramHandler, message: Message) -> None:
    try:
        activation = tick.activation.with_own({"event": message_value(tick.state, message)})
        patch = {
            key: tick.keep_inline(template.render(activation), f"effect {key} of `on[{handler.index}]`")
            for key, template in handler.effects.items()
        }
    except (ExpressionError, ValueRefusedError) as error:
        _fail_run(tick, error, f"`on[{handler.index}].effects` failed")
        return
    if patch:
        tick.emit(ContextPatched(node=HANDLERS, patch=patch))
    for ref in handler.cancels:
        withdraw(tick, tick.program.nodes[ref])


def _fail_run(tick: Tick, error: ExpressionError | ValueRefusedError, reason: str) -> None:
    begin_closing(tick, "failed", error=expression_failure(error), reason=reason)


def _dispose(tick: Tick, message: Message, disposition: str) -> None:
    tick.outbox.messages[message.id] = MessageDisposition(message.id, disposition)  # type: ignore[arg-type]
