"""How a function is declared, and the set of functions an expression may call."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from ductor.definitions.expressions.budget import UNITS_PER_HOST_CALL, Meter
from ductor.definitions.expressions.cel_values import Value, to_json
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.macros import MACROS
from ductor.definitions.expressions.tokens import KEYWORDS, RESERVED
from ductor.definitions.values import JsonValue

Implementation: TypeAlias = Callable[..., Value]
"""Takes the meter of the evaluation, then the arguments; a method's target is the first."""
Style: TypeAlias = Literal["function", "method", "both"]
MAX_ARGUMENTS = 8
"""The most arguments a function takes, unless it takes any number."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A function that expressions may call.

    Attributes:
        name: what it is called.
        implementation: takes the meter, then the arguments.
        least: the fewest arguments, a method's target counted.
        most: the most arguments.
        style: whether it is called as `f(x)`, as `x.f()`, or either way.
    """

    name: str
    implementation: Implementation
    least: int
    most: int
    style: Style = "both"

    def counts(self, *, method: bool) -> str:
        """How many arguments a call gives, in words."""
        least, most = (self.least - 1, self.most - 1) if method else (self.least, self.most)
        return str(least) if least == most else f"{least} to {most}"


class FunctionLibrary:
    """The functions known to an expression; immutable, shared by all expressions of a host.

    `standard_library()` of `ductor.definitions.expressions` is where a host begins.
    """

    def __init__(self, functions: Iterable[Function]) -> None:
        self._functions: Mapping[str, Function] = {function.name: function for function in functions}

    def find(self, name: str) -> Function | None:
        """The function of this name, or None."""
        return self._functions.get(name)

    def names(self) -> frozenset[str]:
        """The names of all functions, macros among them."""
        return frozenset(self._functions) | MACROS

    def with_function(
        self, name: str, implementation: Callable[..., JsonValue], *, least: int, most: int | None = None
    ) -> "FunctionLibrary":
        """The library with one more function, called as `name(x, ...)` or `x.name(...)`.

        Args:
            name: a CEL identifier that no function, macro or keyword has.
            implementation: a pure function of JSON values to a JSON value: the same arguments give the same result,
                on every host and for ever, without clock, chance or input. It gets its arguments by position. What it
                raises becomes an `ExpressionError` of kind `function_failed`. It must not change its arguments.
            least: the fewest arguments it takes, at least 1.
            most: the most arguments it takes; `least` if left out.

        Raises:
            ValueError: the name is taken or no identifier, or the counts make no sense.
        """
        highest = least if most is None else most
        if not (name.isidentifier() and name.isascii()) or name in RESERVED or name in KEYWORDS:
            raise ValueError(f"{name!r} can't name a function: use letters, digits and underscores, and no keyword")
        if name in self.names():
            raise ValueError(f"{name!r} is the name of a function already")
        if not 1 <= least <= highest <= MAX_ARGUMENTS:
            raise ValueError(f"a function takes 1 to {MAX_ARGUMENTS} arguments, not {least} to {highest}")
        added = Function(name=name, implementation=_guarded(name, implementation), least=least, most=highest)
        return FunctionLibrary([*self._functions.values(), added])


def _guarded(name: str, implementation: Callable[..., JsonValue]) -> Implementation:
    """A host's function, given JSON only, held to JSON, its failures told as faults."""

    def call(meter: Meter, *arguments: Value) -> Value:
        meter.charge(UNITS_PER_HOST_CALL)
        given = [to_json(argument, meter) for argument in arguments]
        try:
            result = implementation(*given)
        except Exception as error:
            message = f"{name}() failed: {type(error).__name__}: {error}"
            raise Fault("function_failed", message) from error
        try:
            return to_json(result, meter)
        except BudgetFault:
            raise
        except Fault as fault:
            raise Fault("function_failed", f"{name}() gave no JSON: {fault.message}") from None

    return call
