"""`task`: the user's Python handler, by name."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from ductor.definitions.fields import Name, TemplateText
from ductor.definitions.steps.step import CompiledField, FieldProblem, WorkerStep
from ductor.definitions.values import JsonValue


class TaskStep(WorkerStep, tag="task", frozen=True, kw_only=True):
    """Runs a handler in a worker.

    Attributes:
        task: the handler's name; a `${...}` template only together with `tasks`, its allow-list.
        input: template of the handler's input.
    """

    type_name: ClassVar[str] = "task"

    task: TemplateText
    tasks: tuple[Name, ...] = ()
    input: JsonValue = msgspec.field(default_factory=dict)

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `task` and `input`."""
        yield from super().compiled_fields()
        yield CompiledField("task", "template", self.task)
        yield CompiledField("input", "template", self.input)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: a computed handler name needs its allow-list, and only that."""
        yield from super().field_problems()
        computed = "${" in self.task
        if computed and not self.tasks:
            yield FieldProblem(
                "task_without_allow_list",
                "task",
                "a computed `task` needs `tasks`, the list of handlers it may name",
                "Add `tasks: [first.handler, second.handler]`.",
            )
        if not computed and self.tasks:
            yield FieldProblem("needless_allow_list", "tasks", "`tasks` has no effect: `task` is not computed")
        if not computed and any(character.isspace() for character in self.task):
            yield FieldProblem("invalid_name", "task", f"a handler's name has no blanks: {self.task!r}")
