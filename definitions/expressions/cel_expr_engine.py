"""The engine over CEL's C++ runtime (`cel-expr-python`).

An expression goes to the runtime if `cel_expr_source` can write it. Everything else goes to the portable engine: every
failure of the runtime, and every input that it would read differently (an integer beyond 64 bits, a map to loop over)
or too slowly. That is sound because absorbed failures never change a result: `true || x` is true whatever `x` is.

Limits of size are the same as the portable engine's. Cost is not counted in the runtime: what is cheap there may have a
value although the portable engine would call it too dear.
"""

from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # it has stubs but no py.typed marker

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.budget import (
    MAX_EXPRESSION_LENGTH,
    MAX_LIST_SIZE,
    MAX_NESTING,
    MAX_VALUE_DEPTH,
)
from ductor.definitions.expressions.cel_expr_source import MAX_INPUTS, Emitter, Input, Unsupported
from ductor.definitions.expressions.cel_values import INT_MAX, INT_MIN, Value
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.portable_engine import PortableEngine
from ductor.definitions.expressions.syntax import Node

MAX_INPUT_VALUES = 20_000
"""Values in all inputs of one evaluation together; more cost longer to convert than an evaluation may take."""
MAX_INPUT_TEXT = 200_000
"""Characters of one text in an input."""
MAX_INPUT_DEPTH = MAX_VALUE_DEPTH - MAX_NESTING
"""Lists and maps inside each other in an input; an expression may put as many around it as it nests."""


class CelExprEngine:
    """See the module."""

    name = "cel-expr"

    def __init__(self) -> None:
        self._portable = PortableEngine()
        self._environment: Any = cel.NewEnv(variables={f"v{number}": cel.Type.DYN for number in range(MAX_INPUTS)})

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        """See `Engine.compile`."""
        return self.compile_native(tree, functions) or self._portable.compile(tree, functions)

    def compile_native(self, tree: Node, functions: FunctionLibrary) -> Program | None:
        """The program that uses the runtime, or None if the runtime is not given this expression."""
        emitter = Emitter()
        try:
            native = self._environment.compile(emitter.emit(tree, {}))
        except (Unsupported, RuntimeError):  # the runtime's type checker refuses what fails in any case
            return None
        inputs = [
            (f"v{number}", given, self._portable.compile(given.node, functions))
            for number, given in enumerate(emitter.inputs)
        ]
        return _program(native, inputs, emitter.joins, self._portable.compile(tree, functions))


def _program(native: Any, inputs: list[tuple[str, Input, Program]], joins: int, portable: Program) -> Program:
    def run(activation: Activation) -> Value:
        data = _convertible(inputs, activation, joins)
        if data is None:
            return portable(activation)
        try:
            result = native.eval(data=data)
        except (RuntimeError, UnicodeError):  # its budget of rounds; half a surrogate pair
            return portable(activation)
        if result.type() == cel.Type.ERROR:
            return portable(activation)
        return result.plain_value()

    return run


def _convertible(
    inputs: list[tuple[str, Input, Program]], activation: Activation, joins: int
) -> dict[str, Value] | None:
    """The values of the inputs, without those that have none; None if the runtime must not get them."""
    data: dict[str, Value] = {}
    room = _Room(joins)
    for name, given, read in inputs:
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


class _Room:
    """What is left of the room for the inputs of one evaluation.

    Joining texts or lists adds up its operands, each of which stands in the expression by itself, so `joins` of them
    make nothing larger than `joins + 1` inputs and the literals.
    """

    def __init__(self, joins: int) -> None:
        self.values = MAX_INPUT_VALUES
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
