"""`interaction`: asks a person, an agent or a system for input that fits a schema."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from ductor.definitions.fields import TemplateText
from ductor.definitions.steps.step import CompiledField, ParkedStep
from ductor.definitions.values import JsonObject, JsonValue


class InteractionStep(ParkedStep, tag="interaction", frozen=True, kw_only=True):
    """Parks until a fitting reply; one that does not fit is refused to its sender.

    Attributes:
        ask: template of the question.
        of: what kind of partner is asked.
        to: template of who is asked.
        data: template of what the partner sees beside the question.
        schema: JSON Schema 2020-12 of the reply; empty accepts anything.
    """

    type_name: ClassVar[str] = "interaction"

    ask: TemplateText
    of: Literal["person", "agent", "system"] = "person"
    to: TemplateText | None = None
    data: JsonValue = None
    schema: JsonObject = msgspec.field(default_factory=dict)
    on_timeout: Literal["fail", "skip"] = "fail"

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds `ask`, `to` and `data`."""
        yield from super().compiled_fields()
        yield CompiledField("ask", "template", self.ask)
        if self.to is not None:
            yield CompiledField("to", "template", self.to)
        yield CompiledField("data", "template", self.data)
