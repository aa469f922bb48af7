"""`interaction`: asks a person, an agent or a system, and parks until a reply fits the schema."""

from functools import lru_cache

import msgspec

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import list_in_inbox, park
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
        ask = node.templates["ask"].render(tick.activation)
        to = node.templates["to"].render(tick.activation) if "to" in node.templates else None
        data: JsonValue = {
            "ask": ask,
            "of": step.of,
            "to": to,
            "data": node.templates["data"].render(tick.activation),
            "schema": step.schema,
        }
        park(tick, node, "interaction", data=data)
        list_in_inbox(tick, node, str(ask), () if to is None else (str(to),))

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
    if not schema:
        return []
    found = _compiled(msgspec.json.encode(schema, order="deterministic")).problems(reply)
    return [f"{show_path(path) or 'the reply'}: {message}" for path, message in found]


@lru_cache(maxsize=1_000)
def _compiled(schema: bytes) -> Schema:
    return Schema(msgspec.json.decode(schema))
