"""Why a step has not begun: its join, its guard, and the edges that lead to it."""

from collections.abc import Callable

from ductor.actors.reasons.reason import Reason, Subject, condition_details
from ductor.actors.tick.gathering import output_of
from ductor.actors.tick.schedule import readiness
from ductor.actors.tick.settle import own_values
from ductor.definitions.program import ProgramNode
from ductor.definitions.values import JsonObject
from ductor.journal.events import RUN_LEASE, SETTLED_NODE_STATUSES

FindReason = Callable[[str], Reason]
"""Gives the reasons of another step, by its ref."""


def pending_reason(subject: Subject, node: ProgramNode, reason_of: FindReason) -> Reason:
    """Why a pending step of a run that has not ended does not run yet."""
    state, node_state = subject.state, subject.node_state(node.ref)
    if state.closing is not None and not node.is_defer:
        text = f"does not begin any more: the run is ending as {state.closing.status}"
        return Reason(kind="not_reached", text=text, ref=node.ref)
    if RUN_LEASE in state.nodes and not node.is_defer:
        return Reason(kind="not_reached", text="begins once the run has its lease", ref=node.ref)
    answer = readiness(state, node, node_state.sources_settled, node_state.sources_taken)
    if answer is not None:
        return _ready(subject, node, will_run=answer)
    if node.is_defer:
        return Reason(kind="deferred", text="a step of `defer`: it runs when the run ends", ref=node.ref)
    details: JsonObject = {
        "join": node.step.join,
        "sources": node.sources,
        "settled": node_state.sources_settled,
        "taken": node_state.sources_taken,
    }
    children = [_from_source(subject, source, node.ref, reason_of) for source in node.predecessors]
    if node.run_if is not None:
        children.append(guard_reason(subject, node))
    return Reason(kind="join", text=_join_text(subject, node), ref=node.ref, children=tuple(children), details=details)


def guard_reason(subject: Subject, node: ProgramNode) -> Reason:
    """What the guard of a step says with the values of now."""
    assert node.run_if is not None
    details = condition_details(node.run_if, subject.tick.activation)
    said = {True: "holds", False: "does not hold", None: "fails to evaluate"}[details["holds"]]  # type: ignore[index]
    text = f"its guard `{node.run_if.source}` {said} with the values of now"
    return Reason(kind="guard", text=text, ref=node.ref, details=details)


def edge_reason(subject: Subject, source: ProgramNode, target: str) -> Reason:
    """What a settled source means for a step that it leads to, and why."""
    state = subject.node_state(source.ref)
    details: JsonObject = {"from": source.ref, "status": state.status, "outcome": state.outcome}
    is_taken = target in state.taken
    details["taken"] = is_taken
    if is_taken:
        text = f"`{source.ref}` has settled and led here"
        return Reason(kind="edge", text=text, ref=source.ref, details=details)
    if state.status == "cancelled" or (state.status == "skipped" and not state.taken):
        text = f"`{source.ref}` was {state.status}: its edges are not taken"
        return Reason(kind="edge", text=text, ref=source.ref, details=details)
    if state.status == "failed" and source.step.on_error == "fail":
        text = f"`{source.ref}` failed and `on_error` is `fail`: none of its edges is taken"
        return Reason(kind="edge", text=text, ref=source.ref, details=details)
    outcome = "success" if state.status == "skipped" else state.outcome
    under = [name for name in source.routes if _leads_to(source, name, target)]
    details["edge_under"] = list(under)
    if outcome in under or "done" in under:
        return _not_chosen(subject, source, target, outcome, details)
    names = " and ".join(f"`{name}`" for name in under)
    text = f"`{source.ref}` settled with `{outcome}`, its edge to `{target}` stands under {names}"
    return Reason(kind="edge", text=text, ref=source.ref, details=details)


def _ready(subject: Subject, node: ProgramNode, *, will_run: bool) -> Reason:
    does = "begins" if will_run else "is skipped"
    when = "when the run is resumed" if subject.state.paused_at_us is not None else "with the next tick"
    children = (guard_reason(subject, node),) if will_run and node.run_if is not None else ()
    return Reason(kind="ready", text=f"{does} {when}", ref=node.ref, children=children, details={"will_run": will_run})


def _join_text(subject: Subject, node: ProgramNode) -> str:
    state, join, sources = subject.node_state(node.ref), node.step.join, node.sources
    if join in ("all", "every"):
        condition = "all lead here" if join == "every" else "one leads here"
        return (
            f"waits until its sources have settled and {condition} (`join: {join}`): "
            f"{state.sources_settled} of {sources} have settled, {state.sources_taken} led here"
        )
    needed = 1 if join == "any" else join
    return (
        f"waits until {needed} of its sources lead here (`join: {join}`): "
        f"{state.sources_taken} do, {sources - state.sources_settled} of {sources} have not settled"
    )


def _from_source(subject: Subject, source: str, target: str, reason_of: FindReason) -> Reason:
    if subject.node_state(source).status in SETTLED_NODE_STATUSES:
        return edge_reason(subject, subject.program.nodes[source], target)
    return reason_of(source)


def _leads_to(source: ProgramNode, outcome: str, target: str) -> bool:
    route = source.routes[outcome]
    return target in route.targets or any(to == target for group in route.groups for _, to in group.branches)


def _not_chosen(subject: Subject, source: ProgramNode, target: str, outcome: str, details: JsonObject) -> Reason:
    """The edge stands in a choice that led elsewhere; conditions are told with the values of now."""
    state = subject.node_state(source.ref)
    output = output_of(subject.state, source.ref, state)
    activation = subject.tick.activation.with_own(own_values(subject.tick, source, output, state.error))
    children = []
    for name in (outcome, "done"):
        for group in source.routes[name].groups if name in source.routes else ():
            for when, to in group.branches:
                if to == target and when is not None:
                    condition = condition_details(when, activation)
                    said = "was not the first that held" if condition["holds"] else "does not hold"
                    text = f"`{when.source}` {said}"
                    children.append(Reason(kind="guard", text=text, ref=source.ref, details=condition))
    text = f"the choice of `{source.ref}` under `{outcome}` led elsewhere than to `{target}`"
    return Reason(kind="edge", text=text, ref=source.ref, children=tuple(children), details=details)
