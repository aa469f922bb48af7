"""`digest`: gathers items of one key across runs over a window."""

from collections.abc import Iterator
from typing import ClassVar, Final

from ductor.definitions.fields import Count, LimitMs, TemplateText
from ductor.definitions.policies import Part
from ductor.definitions.steps.step import CompiledField, FieldProblem, RunsIn, Step
from ductor.definitions.values import JsonValue

WINDOW_ITEMS_MAX: Final = 10_000
"""Items of one window at most: one without `count` closes when it has so many."""


class Window(Part, frozen=True, kw_only=True):
    """Fixed from the first item; closes after `duration_ms` or at `count` items, whichever comes first.

    It also closes when its items are too large to wait for more (`ductor.journal.digest_store`).
    """

    duration_ms: LimitMs | None = None
    count: Count | None = None


class DigestStep(Step, tag="digest", frozen=True, kw_only=True):
    """The first run of a window carries on with `{items}`, the others complete as `{merged_into}`.

    Attributes:
        key: template of what belongs together.
        item: template of what this run brings.
    """

    type_name: ClassVar[str] = "digest"
    runs_in: ClassVar[RunsIn] = "parked"

    key: TemplateText
    item: JsonValue
    window: Window

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `key` and `item`."""
        yield from super().compiled_fields()
        yield CompiledField("key", "template", self.key)
        yield CompiledField("item", "template", self.item)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: a window must be able to close."""
        yield from super().field_problems()
        if self.window.duration_ms is None:
            yield FieldProblem("endless_window", "window", "a window needs `duration`, so that it closes")
        if (self.window.count or 0) > WINDOW_ITEMS_MAX:
            message = f"a window holds at most {WINDOW_ITEMS_MAX:,} items"
            yield FieldProblem("window_too_large", "window.count", message)
