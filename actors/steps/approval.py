"""`approval`: parks until people have approved or rejected. One vote a person; the first counts."""

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import list_in_inbox, park
from ductor.actors.tick.settle import fail, succeed
from ductor.actors.tick.working import Tick
from ductor.definitions.durations import format_timestamp_us
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.approval import ApprovalStep
from ductor.definitions.values import JsonObject, JsonValue
from ductor.journal.events import ErrorInfo, Message
from ductor.journal.state import NodeState

GROUP_PREFIX = "group:"
"""An approver of this form is a group: how many votes it may bring is not known."""


class ApprovalBehaviour(ParkedForPeople):
    """Approved at the quorum; rejected at a veto, or once the quorum can't be reached."""

    def start(self, tick: Tick, node: ProgramNode) -> None:
        """Ask."""
        step = _step(node)
        approvers = node.templates["approvers"].render(tick.activation)
        people = _people(approvers)
        if people is None:
            message = f"step {node.ref}: `approvers` must give a list of names, not {approvers!r}"
            fail(tick, node, ErrorInfo(type="InvalidApprovers", message=message, retryable=False))
            return
        title = node.templates["title"].render(tick.activation)
        data: JsonValue = {
            "title": title,
            "data": node.templates["data"].render(tick.activation),
            "approvers": list(people),
            "quorum": step.quorum,
            "veto": step.veto,
        }
        park(tick, node, "approval", data=data)
        list_in_inbox(tick, node, str(title), people)

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """Count the votes."""
        step, state = _step(node), tick.node_state(node)
        votes = votes_of(tick, state)
        approvals = [vote for vote in votes if vote["decision"] == "approved"]
        rejections = len(votes) - len(approvals)
        people = _known_approvers(tick, state)
        if len(approvals) >= step.quorum:
            _decide(tick, node, "approved", votes)
        elif rejections and (step.veto or (people is not None and people - rejections < step.quorum)):
            _decide(tick, node, "rejected", votes)


def _step(node: ProgramNode) -> ApprovalStep:
    assert isinstance(node.step, ApprovalStep)
    return node.step


def _people(approvers: JsonValue) -> tuple[str, ...] | None:
    if not isinstance(approvers, list) or not approvers:
        return None
    return tuple(dict.fromkeys(str(name) for name in approvers)) if all(isinstance(n, str) for n in approvers) else None


def votes_of(tick: Tick, state: NodeState) -> list[JsonObject]:
    """The votes so far, one a person, in order."""
    votes: dict[str, JsonObject] = {}
    for message in state.messages:
        payload = tick.state.value(message.payload, message.payload_ref)
        if isinstance(payload, dict) and message.by not in votes:
            votes[message.by] = {
                "by": message.by,
                "decision": payload.get("decision"),
                "comment": payload.get("comment"),
                "at": format_timestamp_us(message.at_us),
            }
    return list(votes.values())


def _known_approvers(tick: Tick, state: NodeState) -> int | None:
    """How many may vote, None where groups are among them."""
    data = tick.state.value(state.data, state.data_ref)
    approvers = data.get("approvers") if isinstance(data, dict) else None
    if not isinstance(approvers, list) or any(str(name).startswith(GROUP_PREFIX) for name in approvers):
        return None
    return len(approvers)


def _decide(tick: Tick, node: ProgramNode, decision: str, votes: list[JsonObject]) -> None:
    last = next(vote for vote in reversed(votes) if vote["decision"] == decision)
    output: JsonValue = {
        "decision": decision,
        "by": last["by"],
        "comment": last["comment"],
        "votes": list(votes),
    }
    inline, ref = tick.keep(output, f"output of step {node.ref}")
    succeed(tick, node, decision, output, inline=inline, ref=ref)
