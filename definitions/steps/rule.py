"""`rule`: an ordered decision table."""

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from ductor.definitions.policies import Part
from ductor.definitions.steps.step import CompiledField, RunsIn, Step
from ductor.definitions.values import JsonValue


class Rule(Part):
    """A row: `then` (template) applies when `when` (CEL) holds."""

    when: str
    then: JsonValue = None


class RuleStep(Step, tag="rule"):
    """Evaluates its rows in order.

    Attributes:
        hit: `first` gives the first row's value; `unique` too, and more than one is an error; `all` gives the list of
            values; `collect` merges objects, later rows win.
        default: template used when no row holds; without it that is an error (`all` and `collect` give an empty value).
    """

    type_name: ClassVar[str] = "rule"
    runs_in: ClassVar[RunsIn] = "tick"

    rules: tuple[Rule, ...]
    hit: str = "first"
    default: JsonValue | msgspec.UnsetType = msgspec.UNSET

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds each row and `default`."""
        yield from super().compiled_fields()
        for index, rule in enumerate(self.rules):
            yield CompiledField(f"rules[{index}].when", "expression", rule.when)
            yield CompiledField(f"rules[{index}].then", "template", rule.then)
        if self.default is not msgspec.UNSET:
            yield CompiledField("default", "template", self.default)
