"""`subworkflow`: a child run of another definition, or of an inline body."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from ductor.definitions.fields import LimitMs, Name, TemplateText
from ductor.definitions.policies import Repeat
from ductor.definitions.steps.step import CompiledField, FieldProblem, RunsIn, Step
from ductor.definitions.values import JsonValue

CHECKPOINT_PREFIX = "checkpoint:"


class SubworkflowStep(Step, tag="subworkflow", frozen=True, kw_only=True):
    """Starts a child run.

    Attributes:
        definition: name of the child's definition; None when the body is inline, held in `Definition.bodies` under
            this step's ref.
        input: template of the child's trigger.
        key: template of a key that makes the child unique.
        mode: `sync` parks until the child reaches `wait_for`, `async` goes on once the child is recorded.
        wait_for: `terminal` or `checkpoint:<name>`.
        on_timeout: what happens where there is no `timeout` edge: the step fails; it succeeds with the child's id
            (`detach`); it fails and leads on along its `error` edges, whatever `on_error` says. The child goes on.
        on_parent_close: what becomes of the child when the parent is cancelled.
    """

    type_name: ClassVar[str] = "subworkflow"
    runs_in: ClassVar[RunsIn] = "child"
    outcomes: ClassVar[tuple[str, ...]] = ("success", "error", "timeout")

    definition: Name | None = None
    input: JsonValue = msgspec.field(default_factory=dict)
    key: TemplateText | None = None
    mode: Literal["sync", "async"] = "sync"
    wait_for: Name = "terminal"
    timeout_ms: LimitMs | None = None
    on_timeout: Literal["fail_parent", "detach", "continue_with_error"] = "fail_parent"
    on_parent_close: Literal["cancel", "abandon"] = "cancel"
    repeat: Repeat | None = None

    @property
    def may_lead_on_after_error(self) -> bool:
        """Also where only a timeout does."""
        return super().may_lead_on_after_error or self.on_timeout == "continue_with_error"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `input`, `key` and `repeat.until`."""
        yield from super().compiled_fields()
        yield CompiledField("input", "template", self.input)
        if self.key is not None:
            yield CompiledField("key", "template", self.key)
        if self.repeat is not None:
            yield CompiledField("repeat.until", "expression", self.repeat.until, own=True)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds the form of `wait_for`, and what `async` leaves without meaning."""
        yield from super().field_problems()
        named = self.wait_for.startswith(CHECKPOINT_PREFIX) and self.wait_for != CHECKPOINT_PREFIX
        if self.wait_for != "terminal" and not named:
            yield FieldProblem(
                "invalid_wait_for",
                "wait_for",
                f"`{self.wait_for}` is nothing to wait for",
                "Valid: terminal, checkpoint:<name>.",
            )
        if self.mode == "async" and (self.wait_for != "terminal" or self.timeout_ms is not None):
            path = "timeout" if self.timeout_ms is not None else "wait_for"
            yield FieldProblem("async_waits", path, f"`{path}` has no effect with `mode: async`, which does not wait")
