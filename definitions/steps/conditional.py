"""`conditional`: one CEL boolean that picks the `true` or the `false` edges."""

from collections.abc import Iterator
from typing import ClassVar

from ductor.definitions.fields import Cel
from ductor.definitions.steps.step import CompiledField, RunsIn, Step


class ConditionalStep(Step, tag="conditional", frozen=True, kw_only=True):
    """Evaluates `when`; its output is the boolean."""

    type_name: ClassVar[str] = "conditional"
    runs_in: ClassVar[RunsIn] = "tick"
    outcomes: ClassVar[tuple[str, ...]] = ("true", "false", "error")

    when: Cel

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `when`."""
        yield from super().compiled_fields()
        yield CompiledField("when", "expression", self.when)
