"""`rule`: an ordered decision table."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import msgspec

from ductor.definitions.fields import Cel
from ductor.definitions.policies import Part
from ductor.definitions.steps.step import CompiledField, FieldProblem, RunsIn, Step
from ductor.definitions.values import JsonValue


class Rule(Part, frozen=True, kw_only=True):
    """A row: `then` (template) applies when `when` (CEL) holds."""

    when: Cel
    then: JsonValue = None


class RuleStep(Step, tag="rule", frozen=True, kw_only=True):
    """Evaluates its rows in order.

    Attributes:
        hit: `first` gives the first row's value; `unique` too, and more than one is an error; `all` gives the list of
            values; `collect` merges objects, later rows win.
        default: template used when no row holds; without it that is an error (`all` and `collect` give an empty value).
    """

    type_name: ClassVar[str] = "rule"
    runs_in: ClassVar[RunsIn] = "tick"

    rules: tuple[Rule, ...]
    hit: Literal["first", "all", "collect", "unique"] = "first"
    default: JsonValue | msgspec.UnsetType = msgspec.UNSET

    def compiled_fields(self) -> Iterator[CompiledField]:
        """Adds each row and `default`."""
        yield from super().compiled_fields()
        for index, rule in enumerate(self.rules):
            yield CompiledField(f"rules[{index}].when", "expression", rule.when)
            yield CompiledField(f"rules[{index}].then", "template", rule.then)
        if self.default is not msgspec.UNSET:
            yield CompiledField("default", "template", self.default)

    def field_problems(self) -> Iterator[FieldProblem]:
        """Adds: a table needs rows."""
        yield from super().field_problems()
        if not self.rules:
            yield FieldProblem("empty_table", "rules", "a rule table needs at least one row")
