"""`human_loop`: opens a case for a person and parks until it has the awaited status."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from ductor.definitions.fields import Name, TemplateText
from ductor.definitions.steps.step import CompiledField, ParkedStep
from ductor.definitions.values import JsonValue


class HumanLoopStep(ParkedStep, tag="human_loop", frozen=True, kw_only=True):
    """A case with assignee, comments and a status of its own.

    Attributes:
        title: template, for people.
        data: template of what they see.
        assignee: template of the person or group.
        awaiting_status: the status that wakes the run.
    """

    type_name: ClassVar[str] = "human_loop"

    title: TemplateText
    data: JsonValue = None
    assignee: TemplateText | None = None
    awaiting_status: Name = "resolved"
    on_timeout: Literal["fail", "skip"] = "fail"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `title`, `data` and `assignee`."""
        yield from super().compiled_fields()
        yield CompiledField("title", "template", self.title)
        yield CompiledField("data", "template", self.data)
        if self.assignee is not None:
            yield CompiledField("assignee", "template", self.assignee)
