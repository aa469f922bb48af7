"""What a parked step waits for people to do."""

from ductor.actors.reasons.reason import Reason, Subject, listed, shown
from ductor.actors.steps.approval import GROUP_PREFIX, votes_of
from ductor.actors.steps.human_loop import case_of
from ductor.definitions.program import ProgramNode
from ductor.definitions.steps.approval import ApprovalStep
from ductor.definitions.steps.human_loop import HumanLoopStep
from ductor.definitions.values import JsonObject


def approval_reason(subject: Subject, node: ProgramNode) -> Reason:
    """Who has voted, who may still, and how many approvals are missing."""
    step, state = node.step, subject.node_state(node.ref)
    assert isinstance(step, ApprovalStep)
    data = subject.state.value(state.data, state.data_ref)
    approvers = data.get("approvers") if isinstance(data, dict) else None
    asked = [str(name) for name in approvers] if isinstance(approvers, list) else []
    votes = votes_of(subject.tick, state)
    approved = [str(vote["by"]) for vote in votes if vote["decision"] == "approved"]
    rejected = [str(vote["by"]) for vote in votes if vote["decision"] != "approved"]
    # whoever voted for a group can't be told from the group's other members
    missing = [name for name in asked if name.startswith(GROUP_PREFIX) or name not in {*approved, *rejected}]
    text = f"waits for {step.quorum - len(approved)} of {step.quorum} approvals"
    text += f"; approved by {listed(approved)}" if approved else ""
    text += f"; rejected by {listed(rejected)}" if rejected else ""
    text += f"; may vote: {listed(missing)}"
    details: JsonObject = {
        "quorum": step.quorum,
        "veto": step.veto,
        "approved_by": list(approved),
        "rejected_by": list(rejected),
        "missing": list(missing),
    }
    return Reason(kind="approval", text=text, details=details)


def asked_reason(subject: Subject, node: ProgramNode) -> Reason:
    """The case that is open, or the question that has no answer."""
    if isinstance(node.step, HumanLoopStep):
        return _case(subject, node, node.step)
    state = subject.node_state(node.ref)
    data = subject.state.value(state.data, state.data_ref)
    asked = data if isinstance(data, dict) else {}
    to = f" from {asked['to']}" if asked.get("to") else ""
    details: JsonObject = {field: shown(asked.get(field)) for field in ("ask", "of", "to", "schema")}
    return Reason(kind="interaction", text=f"waits for a reply{to} to: {asked.get('ask')}", details=details)


def _case(subject: Subject, node: ProgramNode, step: HumanLoopStep) -> Reason:
    case = case_of(subject.tick, subject.node_state(node.ref))
    assignee = case["assignee"]
    whose = "of nobody" if assignee is None else f"of {assignee}"
    text = f"waits until the case {whose} is `{step.awaiting_status}`; it is `{case['status']}`"
    details: JsonObject = {
        "title": case["title"],
        "status": case["status"],
        "assignee": assignee,
        "awaiting_status": step.awaiting_status,
    }
    return Reason(kind="case", text=text, details=details)
