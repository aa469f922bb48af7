"""`human_loop`: opens a case for a person and parks until the case has the awaited status."""

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import list_in_inbox, park
from ductor.actors.tick.settle import succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.human_loop import HumanLoopStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import Message
from ductor.journal.state import NodeState

OPEN = "open"
"""The status of a case that nobody has changed yet."""


class HumanLoopBehaviour(ParkedForPeople):
    """Messages comment, assign, or set the status; all of them are the case's history."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Open the case."""
        title = node.templates["title"].render(tick.activation)
        assignee = node.templates["assignee"].render(tick.activation) if "assignee" in node.templates else None
        data: JsonValue = {
            "title": title,
            "data": node.templates["data"].render(tick.activation),
            "assignee": assignee,
            "awaiting_status": _step(node).awaiting_status,
        }
        park(tick, node, "interaction", data=data)
        list_in_inbox(tick, node, str(title), () if assignee is None else (str(assignee),))

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """The case has changed."""
        case = case_of(tick, tick.node_state(node))
        if case["status"] == _step(node).awaiting_status:
            inline, ref = tick.keep(case, f"output of step {node.ref}")
            succeed(tick, node, "success", case, inline=inline, ref=ref)
            return
        assignee = case["assignee"]
        people = () if assignee is None else (str(assignee),)
        list_in_inbox(tick, node, str(case["title"]), people, status=str(case["status"]))


def _step(node: ProgramNode) -> HumanLoopStep:
    assert isinstance(node.step, HumanLoopStep)
    return node.step


def case_of(tick: Tick, state: NodeState) -> JsonObject:
    """The case as it stands: `{title, status, assignee, comments, history}`."""
    data = tick.state.value(state.data, state.data_ref)
    assert isinstance(data, dict)
    case: JsonObject = {"title": data["title"], "status": OPEN, "assignee": data["assignee"]}
    comments: list[JsonValue] = []
    history: list[JsonValue] = []
    for message in state.messages:
        payload = tick.state.value(message.payload, message.payload_ref)
        if not isinstance(payload, dict):
            continue
        entry: JsonObject = {"by": message.by, "at": format_timestamp_us(message.at_us)}
        for field in ("status", "assignee"):
            if payload.get(field) is not None:
                case[field] = entry[field] = payload[field]
        if payload.get("comment") is not None:
            comments.append({**entry, "comment": payload["comment"]})
            entry["comment"] = payload["comment"]
        history.append(entry)
    return {**case, "comments": comments, "history": history}
