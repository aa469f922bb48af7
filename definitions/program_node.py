"""A step as a tick looks at it: everything it asks about a step is an attribute or one dictionary lookup."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ductor.definitions.expressions import Expression, Template
from ductor.definitions.expressions.correlation import Correlation
from ductor.definitions.steps import AnyStep

NOTHING_TAKEN: Final[tuple[tuple[str, ...], tuple[str, ...]]] = ((), ())
"""Edges of a node that has none."""


@dataclass(frozen=True, slots=True)
class ChoiceGroup:
    """Ordered branches `(condition, target)`; the first that holds is taken. A condition of None always holds."""

    branches: tuple[tuple[Expression | None, str], ...]


@dataclass(frozen=True, slots=True)
class Route:
    """What one outcome of a step leads to: plain targets in Kahn order, and choice groups in document order."""

    targets: tuple[str, ...]
    groups: tuple[ChoiceGroup, ...]


@dataclass(frozen=True, slots=True)
class ProgramNode:
    """A step, with what a tick needs of it.

    Attributes:
        position: in Kahn order; the steps of `defer` come after all others, in document order.
        sources: number of distinct steps with an edge to this one.
        targets: all distinct steps this one may lead to, in Kahn order.
        routes: by outcome; an outcome without edges is absent.
        plain_edges: targets taken and untaken by outcome, where no choice has a say; `""` takes none.
        predecessors: the distinct sources, in Kahn order.
        ancestors: the steps that lead here; computed only where `cancel_rest` needs them, else empty.
        expressions, templates: by `CompiledField.path`; a field that is not given is absent.
        run_if, input: those of the same name, at hand.
        sends: whether the step emits events or sends signals when it succeeds.
        correlations: of each `match`, by its path, where it has one.
        effects: a template for each context key.
        body: the inline body that a child run of this step carries out, by its key among the program's bodies.
        child: of a scatter: the template of its children.
        undo: the template of the step's undo: of a task, or of a wait for the child run that undoes itself.
        scatter, index: of a scatter's child: whose it is, and of which item.
        undoes: of an undo: the step.
        is_raising: of a scatter: a gather fails with the first child that fails, so that the rest is not wanted.
    """

    ref: str
    step: AnyStep
    position: int
    is_defer: bool
    sources: int
    targets: tuple[str, ...]
    routes: Mapping[str, Route]
    plain_edges: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]
    predecessors: tuple[str, ...]
    ancestors: frozenset[str]
    expressions: Mapping[str, Expression]
    templates: Mapping[str, Template]
    run_if: Expression | None
    effects: Mapping[str, Template]
    input: Template | None
    sends: bool
    correlations: Mapping[str, Correlation]
    body: str = ""
    child: "ProgramNode | None" = None
    undo: "ProgramNode | None" = None
    scatter: str = ""
    index: int = -1
    undoes: str = ""
    is_raising: bool = False
