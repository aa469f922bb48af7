"""`transform`: a value made of CEL, computed inside the tick; may end the run on purpose."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from ductor.definitions.fields import TemplateText
from ductor.definitions.policies import Part
from ductor.definitions.steps.step import CompiledField, FieldProblem, RunsIn, Step
from ductor.definitions.values import JsonValue


class EndError(Part, frozen=True, kw_only=True):
    """The error with which `end: failed` ends the run; all three are templates."""

    type: TemplateText
    message: str = ""
    details: JsonValue = None


class TransformStep(Step, tag="transform", frozen=True, kw_only=True):
    """Computes `value`; with `end` (completed, failed, cancelled) the run ends when this step is done."""

    type_name: ClassVar[str] = "transform"
    runs_in: ClassVar[RunsIn] = "tick"

    value: JsonValue = None
    end: Literal["completed", "failed", "cancelled"] | None = None
    error: EndError | None = None

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `value` and the parts of `error`."""
        yield from super().compiled_fields()
        yield CompiledField("value", "template", self.value)
        if self.error is not None:
            yield CompiledField("error.type", "template", self.error.type, own=True)
            yield CompiledField("error.message", "template", self.error.message, own=True)
            yield CompiledField("error.details", "template", self.error.details, own=True)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: `error` belongs to `end: failed`."""
        yield from super().field_problems()
        if self.error is not None and self.end != "failed":
            yield FieldProblem("error_without_end", "error", "`error` has no effect without `end: failed`")
