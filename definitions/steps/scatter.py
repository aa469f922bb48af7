"""`scatter`: fan-out over the items of a list or a map."""

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from ductor.definitions.fields import INLINE_CHILDREN_MAX, Cel, Count
from ductor.definitions.steps.connector import ConnectorStep
from ductor.definitions.steps.step import CompiledField, FieldProblem, RunsIn, Step
from ductor.definitions.steps.subworkflow import SubworkflowStep
from ductor.definitions.steps.task import TaskStep

ITEM_NAMES = ("item", "index", "key")
COUNT_NAMES = ("total", "succeeded", "failed")

ScatterChild: TypeAlias = TaskStep | ConnectorStep | SubworkflowStep


class ScatterStep(Step, tag="scatter", frozen=True, kw_only=True):
    """Starts one child per item; succeeds when all have settled or `complete_when` holds.

    Attributes:
        items_expr: CEL giving a list or a map.
        key_expr: CEL giving the key of a child; its index without it, its own key in a map.
        do: what each child does; None when the body is inline, held in `Definition.bodies` under this step's ref.
        mode: `inline` children are tasks of this run, `child_workflow` gives each a run of its own.
        max_inline_children: more items are a failure.
        concurrency: children under way at once; None means all.
        interval_ms: pause between two starts.
        complete_when: CEL over `total`, `succeeded`, `failed`; when it holds the rest is cancelled.
    """

    type_name: ClassVar[str] = "scatter"
    runs_in: ClassVar[RunsIn] = "tick"

    items_expr: Cel
    key_expr: Cel | None = None
    do: ScatterChild | None = None
    mode: Literal["inline", "child_workflow"] = "inline"
    max_inline_children: Annotated[int, msgspec.Meta(ge=1, le=INLINE_CHILDREN_MAX)] = 256
    concurrency: Count | None = None
    interval_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = 0
    complete_when: Cel | None = None

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds the scatter's own expressions and those of its child."""
        yield from super().compiled_fields()
        yield CompiledField("items_expr", "expression", self.items_expr)
        if self.key_expr is not None:
            yield CompiledField("key_expr", "expression", self.key_expr, extra=ITEM_NAMES)
        if self.complete_when is not None:
            yield CompiledField("complete_when", "expression", self.complete_when, extra=COUNT_NAMES)
        if self.do is not None:
            for field in self.do.compiled_fields():
                yield CompiledField(f"do.{field.path}", field.kind, field.value, field.own, (*field.extra, *ITEM_NAMES))

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds the checks of the child, and what a child can't have."""
        yield from super().field_problems()
        if self.do is None:
            return
        for problem in self.do.field_problems():
            yield FieldProblem(problem.code, f"do.{problem.path}", problem.message, problem.hint)
        if self.do.run_if is not None:
            yield FieldProblem(
                "run_if_on_child", "do.run_if", "a child has no `run_if`", "Leave the items out in `items_expr`."
            )
