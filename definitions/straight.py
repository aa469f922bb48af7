"""Which steps lead straight to another: plain tasks, one after the other, as most steps of most definitions.

When a task of this kind has succeeded there is nothing to decide: it settles, its one edge is taken, and the one task
behind it starts, which nothing else leads to. Whoever carries runs out may take that way without asking at each of its
stages what else there may be.
"""

from collections.abc import Mapping

from ductor.definitions.manifest import CompiledManifest
from ductor.definitions.program_node import ProgramNode
from ductor.definitions.steps import TaskStep

PLAIN_JOINS = frozenset({"all", "every", "any"})
"""Joins that run a step once its only source has led to it."""


def straight_ways(manifest: CompiledManifest, nodes: Mapping[str, ProgramNode]) -> dict[str, ProgramNode]:
    """The step that each step of `nodes` leads straight to, by the ref of the latter; others are absent.

    None does in a definition whose runs are looked at whenever a step starts: for their length, or for a lease.
    """
    if manifest.continue_as_new_after is not None or manifest.lease is not None:
        return {}
    ways: dict[str, ProgramNode] = {}
    for ref, node in nodes.items():
        taken, untaken = node.plain_edges.get("success", ((), ()))
        if len(taken) == 1 and not untaken and _only_settles(node) and _only_starts(nodes[taken[0]]):
            ways[ref] = nodes[taken[0]]
    return ways


def _only_settles(node: ProgramNode) -> bool:
    """Whether success of the step means nothing but that its edges are taken."""
    step = node.step
    return (
        isinstance(step, TaskStep)
        and not node.is_defer
        and not node.effects
        and not node.sends
        and step.repeat is None
        and step.compensate is None
        and step.lease is None
        and step.checkpoint is None
        and not step.cancels
    )


def _only_starts(node: ProgramNode) -> bool:
    """Whether the step starts as soon as its only source has led to it, whatever else is going on in the run."""
    step = node.step
    return (
        isinstance(step, TaskStep)
        and node.sources == 1
        and step.join in PLAIN_JOINS
        and step.lease is None
        and not step.cancel_rest
        and not step.tasks
        and node.run_if is None
    )
