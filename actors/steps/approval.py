"""`approval`: parks until people have approved or rejected. One vote a person; the first counts."""

from ductor.actors.steps.behaviour import ParkedForPeople
from ductor.actors.tick.parking import check_people, list_in_inbox, park, time_out
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

APPROVED = "approved"
REJECTED = "rejected"


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
        check_people(people, f"approvers of step {node.ref}")
        data: JsonValue = {
            "title": node.templates["title"].render(tick.activation),
            "data": node.templates["data"].render(tick.activation),
            "approvers": list(people),
            "quorum": step.quorum,
            "veto": step.veto,
        }
        park(tick, node, "approval", data=data)
        self.show_in_inbox(tick, node)

    def show_in_inbox(self, tick: Tick, node: ProgramNode) -> None:
        """All approvers see it until it is decided."""
        asked = _asked(tick, tick.node_state(node))
        list_in_inbox(tick, node, asked["title"], _approvers(asked))

    def on_message(self, tick: Tick, node: ProgramNode, message: Message) -> None:
        """Count the votes."""
        step, state = _step(node), tick.node_state(node)
        votes = votes_of(tick, state)
        approvals = sum(vote["decision"] == APPROVED for vote in votes)
        rejections = len(votes) - approvals
        people = _known_approvers(tick, state)
        if approvals >= step.quorum:
            _decide(tick, node, APPROVED, votes)
        elif rejections and (step.veto or (people is not None and people - rejections < step.quorum)):
            _decide(tick, node, REJECTED, votes)

    def on_timer(self, tick: Tick, node: ProgramNode) -> None:
        """Not decided in time. `on_timeout: approve` approves in nobody's name."""
        if "timeout" in node.routes or _step(node).on_timeout != "approve":
            time_out(tick, node)
            return
        votes = votes_of(tick, tick.node_state(node))
        _settle(tick, node, {"decision": APPROVED, "by": None, "comment": "timeout", "votes": list(votes)})


def _step(node: ProgramNode) -> ApprovalStep:
    assert isinstance(node.step, ApprovalStep)
    return node.step


def _people(approvers: JsonValue) -> tuple[str, ...] | None:
    if not isinstance(approvers, list) or not approvers:
        return None
    return tuple(dict.fromkeys(str(name) for name in approvers)) if all(isinstance(n, str) for n in approvers) else None


def votes_of(tick: Tick, state: NodeState) -> list[JsonObject]:
    """The votes so far, one a person, in order. Who may vote through a group was checked when the vote was sent."""
    approvers = _approvers(_asked(tick, state))
    has_groups = any(name.startswith(GROUP_PREFIX) for name in approvers)
    votes: dict[str, JsonObject] = {}
    for message in state.messages:
        payload = tick.state.value(message.payload, message.payload_ref)
        if not isinstance(payload, dict) or payload.get("decision") not in (APPROVED, REJECTED):
            continue
        if message.by not in votes and (has_groups or message.by in approvers):
            votes[message.by] = {
                "by": message.by,
                "decision": payload["decision"],
                "comment": payload.get("comment"),
                "at": format_timestamp_us(message.at_us),
            }
    return list(votes.values())


def _asked(tick: Tick, state: NodeState) -> JsonObject:
    data = tick.state.value(state.data, state.data_ref)
    assert isinstance(data, dict)
    return data


def _approvers(asked: JsonObject) -> tuple[str, ...]:
    approvers = asked["approvers"]
    assert isinstance(approvers, list)
    return tuple(str(name) for name in approvers)


def _known_approvers(tick: Tick, state: NodeState) -> int | None:
    """How many may vote, None where groups are among them."""
    approvers = _approvers(_asked(tick, state))
    return None if any(name.startswith(GROUP_PREFIX) for name in approvers) else len(approvers)


def _decide(tick: Tick, node: ProgramNode, decision: str, votes: list[JsonObject]) -> None:
    last = next(vote for vote in reversed(votes) if vote["decision"] == decision)
    output: JsonObject = {"decision": decision, "by": last["by"], "comment": last["comment"], "votes": list(votes)}
    _settle(tick, node, output)


def _settle(tick: Tick, node: ProgramNode, output: JsonObject) -> None:
    inline, ref = tick.keep(output, f"output of step {node.ref}")
    succeed(tick, node, str(output["decision"]), output, inline=inline, ref=ref)
