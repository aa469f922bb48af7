"""`event_set`: parks until a set of events has arrived."""

from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import EVENT_ID_PREFIX, StateActivation, message_value
from ductor.actors.tick.parking import hear_event, park, time_out
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.event_set import EventSetStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import Message


class EventSetBehaviour(Parked):
    """Which of the awaited events a message is follows from its name and `match`, in the order of the definition."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Listen for all of them, and for the one that ends the collecting."""
        step = _step(node)
        names: dict[str, None] = {}
        for index, awaited in enumerate(step.events):
            hear_event(tick, node, index, awaited.name, node.correlations.get(f"events[{index}].match"))
            names[f"event:{awaited.name}"] = None
        if step.until is not None:
            hear_event(tick, node, len(step.events), step.until.event, node.correlations.get("until.match"))
            names[f"event:{step.until.event}"] = None
        park(tick, node, "event_set", names=tuple(names))

    def hears(self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation) -> bool:
        """Whether the event is one of the set, or ends it."""
        if message.at_us < tick.node_state(node).parked_at_us:
            return False
        return bool(_aliases(node, message.name, activation)) or _ends(node, message.name, activation)

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """See whether the set is complete."""
        if _ends(node, message.name, _activation(tick, message)) or _is_complete(tick, node):
            _finish(tick, node, arrived_events(tick, node))

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """With `until_timeout` that is the success, otherwise a timeout."""
        if _step(node).policy == "until_timeout":
            _finish(tick, node, arrived_events(tick, node))
        else:
            time_out(tick, node)


def _step(node: ProgramNode) -> EventSetStep:
    assert isinstance(node.step, EventSetStep)
    return node.step


def _activation(tick: Tick, message: Message) -> StateActivation:
    return tick.activation.with_own({"event": message_value(tick.state, message)})


def _aliases(node: ProgramNode, name: str, activation: StateActivation) -> list[str]:
    found: list[str] = []
    for index, awaited in enumerate(_step(node).events):
        if awaited.name == name:
            match = node.expressions.get(f"events[{index}].match")
            if match is None or match.evaluate_boolean(activation):
                found.append(awaited.alias or awaited.name)
    return found


def _ends(node: ProgramNode, name: str, activation: StateActivation) -> bool:
    until = _step(node).until
    if until is None or until.event != name:
        return False
    match = node.expressions.get("until.match")
    return match is None or match.evaluate_boolean(activation)


def arrived_events(tick: Tick, node: ProgramNode) -> list[JsonObject]:
    """What counts so far, in order of arrival."""
    arrived: list[JsonObject] = []
    for message in tick.node_state(node).messages:
        arrived.extend(
            {
                "name": alias,
                "payload": tick.state.value(message.payload, message.payload_ref),
                "id": message.id.removeprefix(EVENT_ID_PREFIX),
                "at": format_timestamp_us(message.at_us),
            }
            for alias in _aliases(node, message.name, _activation(tick, message))
        )
    return arrived


def missing_names(tick: Tick, node: ProgramNode) -> list[str]:
    """What the output would call the awaited events of which none has arrived."""
    arrived = {event["name"] for event in arrived_events(tick, node)}
    names = dict.fromkeys(awaited.alias or awaited.name for awaited in _step(node).events)
    return [name for name in names if name not in arrived]


def _is_complete(tick: Tick, node: ProgramNode) -> bool:
    step = _step(node)
    if step.policy == "any":
        return True
    if step.policy == "count":  # an event comes once, and one that only ends the set ends it: all here count
        return len(tick.node_state(node).messages) >= (step.count or 0)
    if step.policy == "all_required":
        return not missing_names(tick, node)
    names = {str(event["name"]) for event in arrived_events(tick, node)}
    return step.policy == "quorum" and len(names) >= (step.quorum or 0)


def _finish(tick: Tick, node: ProgramNode, arrived: list[JsonObject]) -> None:
    events: list[JsonValue] = list(arrived)
    output: JsonValue = {"events": events}
    inline, ref = tick.keep(output, f"output of step {node.ref}")
    succeed(tick, node, "success", output, inline=inline, ref=ref)
