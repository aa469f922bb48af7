"""Redrive, continued: what becomes of the children of a scatter that is put back.

A scatter that is done anew goes on with the items that it has. Its children that succeeded are kept, all others begin
anew; where `from` names children (`each[3]`) only those do. The scatter of a gather that failed because a child had
(`raise`) is done anew with the gather: where that ended the run, and where `from` names it. Only where a step before
the scatter is done anew, which led to it, does it make its items, and all children, anew.
"""

from collections.abc import Iterable, Mapping

import msgspec

from ductor.actors.tick.working import Tick
from ductor.definitions.steps.gather import GatherStep
from ductor.journal.events import NodeReset
from ductor.journal.state import child_place

ChildrenByScatter = dict[str, set[int]]


def is_started_child(tick: Tick, ref: str) -> bool:
    """Whether this is a scatter's child that has been started."""
    place = child_place(ref)
    scatter = None if place is None else tick.state.nodes.get(place[0])
    return (
        place is not None and scatter is not None and scatter.fanout is not None and place[1] < scatter.fanout.started
    )


def scatters_and_children(refs: Iterable[str]) -> tuple[list[str], ChildrenByScatter]:
    """The steps that these refs are or belong to, and the children among them."""
    steps: dict[str, None] = {}
    children: ChildrenByScatter = {}
    for ref in refs:
        place = child_place(ref)
        steps[ref if place is None else place[0]] = None
        if place is not None:
            children.setdefault(place[0], set()).add(place[1])
    return list(steps), children


def scatters_of_raised(tick: Tick, ended: Iterable[str]) -> list[str]:
    """The scatters a child of which made one of these gathers fail."""
    found: dict[str, None] = {}
    for ref in ended:
        step = tick.program.nodes[ref].step
        if isinstance(step, GatherStep) and step.strategy == "raise":
            scatter = tick.state.nodes.get(step.scatter_ref)
            if scatter is not None and scatter.fanout is not None and scatter.fanout.failed:
                found[step.scatter_ref] = None
    return list(found)


def with_children(
    tick: Tick, reset: NodeReset, chosen: Mapping[str, None], named: ChildrenByScatter, whole: Iterable[str]
) -> NodeReset:
    """The reset of a step, with what it says of children if the step is a scatter that has its items.

    Args:
        chosen: all steps that are put back.
        named: children that are done anew whatever became of them.
        whole: scatters whose other children that did not succeed are done anew beside those.
    """
    ref, state = reset.node, tick.state
    node = state.nodes.get(ref)
    if node is None or node.fanout is None:
        return reset
    before = tick.program.nodes[ref].predecessors
    if any(source in chosen and source in state.nodes and ref in state.nodes[source].taken for source in before):
        return reset
    children = set(named.get(ref, ()))
    if children and ref in whole:
        children.update(
            index for index in range(node.fanout.started) if state.node(f"{ref}[{index}]").status != "succeeded"
        )
    return msgspec.structs.replace(reset, keeps_children=True, children=tuple(sorted(children)))
