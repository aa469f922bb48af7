"""`route`: asks the routing engine for an assignment."""

from collections.abc import Iterator
from typing import ClassVar

from ductor.definitions.fields import Name
from ductor.definitions.steps.step import CompiledField, WorkerStep
from ductor.definitions.values import JsonValue


class RouteStep(WorkerStep, tag="route", frozen=True, kw_only=True):
    """Its output is the assignment.

    Attributes:
        routable: template of what is to be assigned.
        pipeline: name of the routing pipeline.
    """

    type_name: ClassVar[str] = "route"

    routable: JsonValue
    pipeline: Name = "default"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `routable`."""
        yield from super().compiled_fields()
        yield CompiledField("routable", "template", self.routable)
