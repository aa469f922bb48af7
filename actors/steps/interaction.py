"""`interaction`: asks a person, an agent or a system, and parks until a reply fits the schema."""

from functools import lru_cache

import msgspec

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import check_people, list_in_inbox, park
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.json_schema import Schema, show_path
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.interaction import InteractionStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import Message


class InteractionBehaviour(ParkedForPeople):
    """Who sends a reply that does not fit is told so before it is stored; one that slipped through changes nothing."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Ask."""
        step = _step(node)
        to = node.templates["to"].render(tick.activation) if "to" in node.templates else None
        if to is not None:
            to = str(to)
            check_people((to,), f"`to` of step {node.ref}")
        data: JsonValue = {
            "ask": node.templates["ask"].render(tick.activation),
            "of": step.of,
            "to": to,
            "data": node.templates["data"].render(tick.activation),
            "schema": step.schema,
        }
        park(tick, node, "interaction", data=data)
        self.show_in_inbox(tick, node)

    def show_in_inbox(self, tick: Tick, node: ProgramNode) -> None:
        """Who is asked sees it, or everybody where nobody is named."""
        state = tick.node_state(node)
        data = tick.state.value(state.data, state.data_ref)
        assert isinstance(data, dict)
        list_in_inbox(tick, node, data["ask"], () if data["to"] is None else (str(data["to"]),))

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """A reply came."""
        reply = tick.state.value(message.payload, message.payload_ref)
        if not reply_problems(_step(node).schema, reply):
            succeed(tick, node, "success", reply, inline=message.payload, ref=message.payload_ref)


def _step(node: ProgramNode) -> InteractionStep:
    assert isinstance(node.step, InteractionStep)
    return node.step


def reply_problems(schema: JsonObject, reply: JsonValue) -> list[str]:
    """Everything in which a reply does not fit, each with its path."""
    found = _compiled(msgspec.json.encode(schema, order="deterministic")).problems(reply)
    return [f"{show_path(path) or 'the reply'}: {message}" for path, message in found]


@lru_cache(maxsize=1_000)
def _compiled(schema: bytes) -> Schema:
    return Schema(msgspec.json.decode(schema))
