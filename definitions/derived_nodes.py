"""Nodes that a manifest does not list: the children of scatters, and the undos of steps.

The child of item 3 of the scatter `each` is the node `each[3]`; the undo of the step `charge` is `charge.compensate`,
and that of a child `each[3].compensate`. No step can have such a ref, so names never clash. A program holds one
template for all children of a scatter and one for each undo; a node is made of it when somebody asks, and kept for a
while.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import msgspec

from ductor.definitions.expressions import Expression, Template
from ductor.definitions.fields import UNDO_SUFFIX
from ductor.definitions.program_node import NOTHING_TAKEN, ProgramNode
from ductor.definitions.steps import ScatterStep, SubworkflowStep, TaskStep
from ductor.definitions.steps.scatter import ScatterChild
from ductor.definitions.steps.step import WorkerStep

CHILD_PREFIX: Final = "do."
"""Begins the paths of the fields of a scatter's child among those of the scatter."""

MAX_DERIVED_NODES: Final = 16_384
"""Nodes kept by one program; when there are more, all are made anew."""

DERIVED_POSITION: Final = 1 << 30
"""Behind every step of a definition."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DerivedNodes:
    """The derived nodes of one program, made when they are asked for."""

    nodes: Mapping[str, ProgramNode]
    made: dict[str, ProgramNode] = field(default_factory=dict)

    def node(self, ref: str) -> ProgramNode:
        """A child or an undo by its name. Raises KeyError where the definition has none such."""
        node = self.made.get(ref)
        if node is None:
            node = self._make(ref)
            if len(self.made) >= MAX_DERIVED_NODES:
                self.made.clear()
            self.made[ref] = node
        return node

    def _make(self, ref: str) -> ProgramNode:
        if ref.endswith(UNDO_SUFFIX):
            undone = ref.removesuffix(UNDO_SUFFIX)
            base = self.nodes.get(undone) or self.node(undone)
            if base.undo is None:
                raise KeyError(ref)
            return replace(base.undo, ref=ref, undoes=undone, scatter=base.scatter, index=base.index)
        scatter, bracket, rest = ref.partition("[")
        template = self.nodes[scatter].child if bracket else None
        if template is None or not rest.endswith("]"):
            raise KeyError(ref)
        return replace(template, ref=ref, scatter=scatter, index=int(rest[:-1]))


def child_template(
    step: ScatterStep, body: str, expressions: Mapping[str, Expression], templates: Mapping[str, Template]
) -> ProgramNode:
    """The template of a scatter's children.

    Args:
        body: the inline body that a child of its own run carries out; empty for a child of this run, and for one that
            carries out another definition.
        expressions, templates: of the scatter.
    """
    child: ScatterChild
    if step.do is None or (body and not isinstance(step.do, SubworkflowStep)):
        child = SubworkflowStep(ref="do", compensate=None if step.do is None else step.do.compensate)
    else:
        child = step.do
    return _derived(
        child,
        {
            path.removeprefix(CHILD_PREFIX): value
            for path, value in expressions.items()
            if path.startswith(CHILD_PREFIX)
        },
        {path.removeprefix(CHILD_PREFIX): value for path, value in templates.items() if path.startswith(CHILD_PREFIX)},
        body=body,
    )


def undo_template(node: ProgramNode) -> ProgramNode | None:
    """The template of a step's undo: a task, or a wait for the child run that undoes itself."""
    step, undo = node.step, node.step.compensate
    if undo is None:
        return None
    if undo.task is None:
        return _derived(SubworkflowStep(ref=step.ref, on_error="continue"), {}, {})
    task = TaskStep(
        ref=step.ref, task=undo.task, input=undo.input, retry=undo.retry, timeout=undo.timeout, on_error="continue"
    )
    if isinstance(step, WorkerStep):
        task = msgspec.structs.replace(task, queue=step.queue, priority=step.priority)
    return _derived(task, {}, {"input": node.templates["compensate.input"]})


def _derived(
    step: TaskStep | ScatterChild,
    expressions: Mapping[str, Expression],
    templates: Mapping[str, Template],
    *,
    body: str = "",
) -> ProgramNode:
    node = ProgramNode(
        ref=step.ref,
        step=step,
        position=DERIVED_POSITION,
        is_defer=False,
        sources=0,
        targets=(),
        routes={},
        plain_edges=dict.fromkeys(("", *step.outcomes), NOTHING_TAKEN),
        predecessors=(),
        ancestors=frozenset(),
        expressions=expressions,
        templates=templates,
        run_if=None,
        effects={key: templates[f"effects.{key}"] for key in step.effects if f"effects.{key}" in templates},
        input=templates.get("input"),
        sends=bool(step.emit or step.signal),
        correlations={},
        body=body,
    )
    return replace(node, undo=undo_template(node)) if "compensate.input" in templates else node
