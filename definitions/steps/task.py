"""`task`: the user's Python handler, by name."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from ductor.definitions.steps.step import CompiledField, WorkerStep
from ductor.definitions.values import JsonValue


class TaskStep(WorkerStep, tag="task"):
    """Runs a handler in a worker.

    Attributes:
        task: the handler's name; a `${...}` template only together with `tasks`, its allow-list.
        input: template of the handler's input.
    """

    type_name: ClassVar[str] = "task"

    task: str
    tasks: tuple[str, ...] = ()
    input: JsonValue = msgspec.field(default_factory=dict)

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `task` and `input`."""
        yield from super().compiled_fields()
        yield CompiledField("task", "template", self.task)
        yield CompiledField("input", "template", self.input)
