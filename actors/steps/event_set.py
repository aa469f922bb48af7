"""`event_set`: parks until a set of events has arrived."""

from ductor.actors.steps.behaviour import Parked
from ductor.actors.tick.activation import EVENT_ID_PREFIX, StateActivation
from ductor.actors.tick.event_waits import hear_event, heard_since_us
from ductor.actors.tick.parking import park, time_out
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.event_set import AwaitedEvent, EventSetStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import Message


class EventSetBehaviour(Parked):
    """Which of the awaited events a message is, is decided when it comes, and kept: `match` may see what changes."""

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

    def hears(
        self, tick: Tick, node: ProgramNode, message: Message, activation: StateActivation
    ) -> tuple[int, ...] | None:
        """Which of the events of the set this one is; the number after the last is that of `until`."""
        if message.at_us < heard_since_us(tick.node_state(node).parked_at_us):
            return None
        step = _step(node)
        places = [
            index
            for index, awaited in enumerate(step.events)
            if awaited.name == message.name and _matches(node, f"events[{index}].match", activation)
        ]
        until = step.until
        if until is not None and until.event == message.name and _matches(node, "until.match", activation):
            places.append(len(step.events))
        return tuple(places) or None

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """See whether the set is complete."""
        if len(_step(node).events) in tick.node_state(node).message_parts[-1] or _is_complete(tick, node):
            _finish(tick, node)

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """With `until_timeout` that is the success, otherwise a timeout."""
        if _step(node).policy == "until_timeout":
            _finish(tick, node)
        else:
            time_out(tick, node)


def _step(node: ProgramNode) -> EventSetStep:
    assert isinstance(node.step, EventSetStep)
    return node.step


def _matches(node: ProgramNode, path: str, activation: StateActivation) -> bool:
    match = node.expressions.get(path)
    return match is None or match.evaluate_boolean(activation)


def arrived_events(tick: Tick, node: ProgramNode) -> list[JsonObject]:
    """What counts so far, in order of arrival."""
    awaited, state = _step(node).events, tick.node_state(node)
    return [
        {
            "name": _name(awaited[index]),
            "payload": tick.state.value(message.payload, message.payload_ref),
            "id": message.id.removeprefix(EVENT_ID_PREFIX),
            "at": format_timestamp_us(message.at_us),
        }
        for message, parts in zip(state.messages, state.message_parts, strict=True)
        for index in parts
        if index < len(awaited)
    ]


def missing_names(tick: Tick, node: ProgramNode) -> list[str]:
    """What the output would call the awaited events of which none has arrived."""
    arrived = _arrived_names(tick, node)
    names = dict.fromkeys(_name(awaited) for awaited in _step(node).events)
    return [name for name in names if name not in arrived]


def _name(awaited: AwaitedEvent) -> str:
    return awaited.alias or awaited.name


def _arrived_names(tick: Tick, node: ProgramNode) -> set[str]:
    awaited = _step(node).events
    several = set(tick.node_state(node).message_parts)  # few, however many events have come; `until` ends the waiting
    return {_name(awaited[index]) for parts in several for index in parts}


def _is_complete(tick: Tick, node: ProgramNode) -> bool:
    step = _step(node)
    if step.policy == "any":
        return True
    if step.policy == "count":  # an event comes once, and one that only ends the set ends it: all here count
        assert step.count is not None
        return len(tick.node_state(node).messages) >= step.count
    if step.policy == "quorum":
        assert step.quorum is not None
        return len(_arrived_names(tick, node)) >= step.quorum
    return step.policy == "all_required" and not missing_names(tick, node)


def _finish(tick: Tick, node: ProgramNode) -> None:
    output: JsonValue = {"events": list(arrived_events(tick, node))}
    inline, ref = tick.keep(output, f"output of step {node.ref}")
    succeed(tick, node, "success", output, inline=inline, ref=ref)
