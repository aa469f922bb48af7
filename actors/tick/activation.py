"""What expressions see of a run.

Nothing is copied or converted ahead: a variable is looked up when an expression names it, and of `steps` only the steps
that it names, so evaluating costs the same in a run of ten steps and of ten thousand.
"""

from ductor.actors.tick.gathering import error_value, output_of
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.expressions import Activation
from ductor.definitions.program import Program
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import Message
from ductor.journal.state import NodeState, RunState

EVENT_ID_PREFIX = "event:"
"""An event reaches a run as a message whose id is this and the event's own."""

NO_STEP: JsonObject = {"output": None, "error": None, "status": "pending", "outcome": None, "attempts": 0}


def message_value(state: RunState, message: Message) -> JsonObject:
    """A message as expressions see it, under the name `event`."""
    return {
        "name": message.name,
        "payload": state.value(message.payload, message.payload_ref),
        "id": message.id.removeprefix(EVENT_ID_PREFIX),
        "at": format_timestamp_us(message.at_us),
        "by": message.by,
    }


def child_values(state: RunState, scatter: str, index: int) -> JsonObject:
    """`item`, `index` and `key` of a scatter's child."""
    fanout = state.nodes[scatter].fanout
    assert fanout is not None
    items = state.value(fanout.items, fanout.items_ref)
    assert isinstance(items, list)
    key: JsonValue = fanout.keys[index] if fanout.keys else index
    return {"item": items[index], "index": index, "key": key}


def undone_values(state: RunState, ref: str) -> JsonObject:
    """What the undo of a step sees of it: `output`, `error` and `iteration`, as its own expressions did. `previous` is
    gone with the round that it belonged to."""
    node = state.nodes[ref]
    return {
        "output": output_of(state, ref, node),
        "error": error_value(node.error),
        "iteration": node.iteration,
        "previous": None,
    }


class StateActivation(Activation):
    """The variables of an expression, read from a run's state. `own` adds the names that only some fields see."""

    __slots__ = ("now_us", "own", "program", "state")

    def __init__(self, program: Program, state: RunState, now_us: int, own: JsonObject | None = None) -> None:
        self.program = program
        self.state = state
        self.now_us = now_us
        self.own = own

    def with_own(self, own: JsonObject) -> "StateActivation":
        """The same variables and `own`, which come first."""
        return StateActivation(self.program, self.state, self.now_us, own)

    def lookup(self, name: str) -> JsonValue:
        """A variable by name; KeyError for one that does not exist here."""
        if self.own is not None and name in self.own:
            return self.own[name]
        state = self.state
        if name == "trigger":
            return state.value(state.trigger, state.trigger_ref)
        if name == "context":
            return state.context
        if name == "config":
            return state.config
        if name == "now":
            return format_timestamp_us(self.now_us)
        if name == "run":
            return self._run()
        if name == "steps":
            return {ref: self.step(ref) for ref in self.program.nodes}
        if name in state.scope:
            return state.scope[name]
        raise KeyError(name)

    def step(self, ref: str) -> JsonObject:
        """`steps.<ref>`; a step that nothing happened to yet is pending and has null output."""
        node = self.state.nodes.get(ref)
        return NO_STEP if node is None else self._step(ref, node)

    def _step(self, ref: str, node: NodeState) -> JsonObject:
        succeeded = node.status == "succeeded"
        return {
            "output": output_of(self.state, ref, node) if succeeded else None,
            "error": error_value(node.error),
            "status": node.status,
            "outcome": node.outcome or None,
            "attempts": node.generation,
        }

    def _run(self) -> JsonObject:
        state = self.state
        closing = state.closing
        return {
            "id": state.run_id,
            "tenant": state.tenant,
            "definition": state.definition,
            "started_at": format_timestamp_us(state.started_at_us or self.now_us),
            "parent": state.parent_run_id,
            "root": state.root_run_id or state.run_id,
            "iteration": state.iteration,
            "status": closing.status if closing is not None else state.status,
            "error": error_value(closing.error) if closing is not None else error_value(state.error),
        }
