"""The variables an evaluation sees."""

from collections.abc import Mapping

from ductor.definitions.values import JsonValue

STEPS = "steps"
"""The variable that holds the steps of a run, each converted only if an expression names it."""


class Activation:
    """The variables of one evaluation, looked up when they are needed.

    A subclass that converts state on demand overrides both methods; expressions call `step` for each step they name
    and `lookup("steps")` only where the step's name is computed (`Names.all_steps`).
    """

    __slots__ = ()

    def lookup(self, name: str) -> JsonValue:
        """The value of a variable.

        Raises:
            KeyError: it is not bound.
        """
        raise KeyError(name)

    def step(self, ref: str) -> Mapping[str, JsonValue]:
        """The variable `steps.<ref>`, whose fields may be converted when they are read.

        Raises:
            KeyError: there is no such step.
        """
        raise KeyError(ref)


class MappingActivation(Activation):
    """Variables that lie ready in a mapping."""

    __slots__ = ("_variables",)

    def __init__(self, variables: Mapping[str, JsonValue]) -> None:
        self._variables = variables

    def lookup(self, name: str) -> JsonValue:
        """See `Activation.lookup`."""
        return self._variables[name]

    def step(self, ref: str) -> Mapping[str, JsonValue]:
        """See `Activation.step`."""
        return self._variables[STEPS][ref]  # type: ignore[index, call-overload, return-value]  # a map of maps


def as_activation(variables: Activation | Mapping[str, JsonValue]) -> Activation:
    """Variables in either form as an `Activation`."""
    return variables if isinstance(variables, Activation) else MappingActivation(variables)
