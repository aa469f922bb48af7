"""`human_loop`: opens a case for a person and parks until the case has the awaited status."""

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import check_people, is_person, list_in_inbox, park
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
        assignee = node.templates["assignee"].render(tick.activation) if "assignee" in node.templates else None
        if assignee is not None:
            assignee = str(assignee)
            check_people((assignee,), f"assignee of step {node.ref}")
        data: JsonValue = {
            "title": node.templates["title"].render(tick.activation),
            "data": node.templates["data"].render(tick.activation),
            "assignee": assignee,
            "awaiting_status": _step(node).awaiting_status,
        }
        park(tick, node, "interaction", data=data)
        self.show_in_inbox(tick, node)

    def show_in_inbox(self, tick: Tick, node: ProgramNode) -> None:
        """The assignee sees it, or everybody where there is none."""
        case = case_of(tick, tick.node_state(node))
        assignee = case["assignee"]
        people = () if assignee is None else (str(assignee),)
        list_in_inbox(tick, node, case["title"], people, status=str(case["status"]))

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """The case has changed."""
        case = case_of(tick, tick.node_state(node))
        if case["status"] == _step(node).awaiting_status:
            inline, ref = tick.keep(case, f"output of step {node.ref}")
            succeed(tick, node, "success", case, inline=inline, ref=ref)
        else:
            self.show_in_inbox(tick, node)


def _step(node: ProgramNode) -> HumanLoopStep:
    assert isinstance(node.step, HumanLoopStep)
    return node.step


def case_of(tick: Tick, state: NodeState) -> JsonObject:
    """The case as it stands: `{title, status, assignee, comments, history}`. What is no text changes nothing."""
    data = tick.state.value(state.data, state.data_ref)
    assert isinstance(data, dict)
    case: JsonObject = {"title": data["title"], "status": OPEN, "assignee": data["assignee"]}
    comments: list[JsonValue] = []
    history: list[JsonValue] = []
    for message in state.messages:
        change = _change(tick.state.value(message.payload, message.payload_ref))
        if not change:
            continue
        entry: JsonObject = {"by": message.by, "at": format_timestamp_us(message.at_us)}
        if "comment" in change:
            comments.append({**entry, "comment": change["comment"]})
        history.append({**entry, **change})
        case.update((field, text) for field, text in change.items() if field != "comment")
    return {**case, "comments": comments, "history": history}


def _change(payload: JsonValue) -> dict[str, str]:
    """What a message changes."""
    if not isinstance(payload, dict):
        return {}
    texts = ((field, payload.get(field)) for field in ("status", "assignee", "comment"))
    change = {field: text for field, text in texts if isinstance(text, str)}
    if "assignee" in change and not is_person(change["assignee"]):
        del change["assignee"]
    return change
