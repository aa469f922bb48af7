"""The values a CEL runtime of others gets for one evaluation, and how much of them it may get."""

from collections.abc import Sequence

import msgspec

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.budget import (
    MAX_EXPRESSION_LENGTH,
    MAX_LIST_SIZE,
    MAX_NESTING,
    MAX_VALUE_DEPTH,
)
from ductor.definitions.expressions.cel_values import INT_MAX, INT_MIN, Value
from ductor.definitions.expressions.emitter import Emitter, Input
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.portable_engine import PortableEngine

MAX_INPUT_TEXT = 200_000
"""Characters of one text in an input."""
MAX_INPUT_DEPTH = MAX_VALUE_DEPTH - MAX_NESTING
"""Lists and maps inside each other in an input; an expression may put as many around it as it nests."""


class RuntimeInputs(msgspec.Struct, frozen=True):
    """The inputs of one expression.

    Attributes:
        readers: for each input its name, what is asked of it, and the program that reads it.
        joins: uses of `+` that may join texts or lists.
        most_values: values in all inputs of one evaluation together.
    """

    readers: Sequence[tuple[str, Input, Program]]
    joins: int
    most_values: int

    def read(self, activation: Activation) -> dict[str, Value] | None:
        """The values of the inputs, without those that have none; None if the runtime must not get them."""
        data: dict[str, Value] = {}
        room = _Room(self.most_values, self.joins)
        for name, given, read in self.readers:
            try:
                value = read(activation)
            except Fault:
                continue
            if given.most_items is not None and (type(value) is not list or len(value) > given.most_items):
                return None
            if not room.holds(value):
                return None
            data[name] = value
        return data


def inputs_of(emitter: Emitter, engine: PortableEngine, functions: FunctionLibrary, most_values: int) -> RuntimeInputs:
    """The inputs of the expression that `emitter` wrote, each read by a program of the portable engine."""
    readers = [
        (f"v{number}", given, engine.compile(given.node, functions)) for number, given in enumerate(emitter.inputs)
    ]
    return RuntimeInputs(readers, emitter.joins, most_values)


class _Room:
    """What is left of the room for the inputs of one evaluation.

    Joining texts or lists adds up its operands, each of which stands in the expression by itself, so `joins` of them
    make nothing larger than `joins + 1` inputs and the literals.
    """

    def __init__(self, values: int, joins: int) -> None:
        self.values = values
        self.items = (MAX_LIST_SIZE - MAX_EXPRESSION_LENGTH) // (joins + 1)
        self.characters = MAX_INPUT_TEXT // (joins + 1)

    def holds(self, value: Value) -> bool:
        """Whether a value fits, with nothing in it that the runtime reads differently."""
        pending = [(value, MAX_INPUT_DEPTH)]
        while pending:
            item, depth = pending.pop()
            kind = type(item)
            self.values -= 1
            if kind is str:
                fits = len(item) <= self.characters
            elif kind is int:
                fits = INT_MIN <= item <= INT_MAX
            elif kind is list or kind is dict:
                fits = depth > 0 and len(item) <= min(self.values, self.items)
                if fits:
                    pending.extend((inner, depth - 1) for inner in (item if kind is list else item.values()))
            else:
                fits = True
            if not fits or self.values < 0:
                return False
        return True
