"""The engine over CEL's C++ runtime (`cel-expr-python`).

An expression goes to the runtime if `cel_expr_source` can write it. Everything else goes to the portable engine: every
failure of the runtime, and every input that it would read differently (an integer beyond 64 bits, a map to loop over)
or too slowly. That is sound because absorbed failures never change a result: `true || x` is true whatever `x` is.
"""

from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]  # it has stubs but no py.typed marker

from ductor.definitions.expressions.activation import Activation
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
        return _program(native, inputs, self._portable.compile(tree, functions))


def _program(native: Any, inputs: list[tuple[str, Input, Program]], portable: Program) -> Program:
    def run(activation: Activation) -> Value:
        data = _convertible(inputs, activation)
        if data is None:
            return portable(activation)
        try:
            result = native.eval(data=data)
        except RuntimeError:  # the runtime's budget of rounds
            return portable(activation)
        if result.type() == cel.Type.ERROR:
            return portable(activation)
        return result.plain_value()

    return run


def _convertible(inputs: list[tuple[str, Input, Program]], activation: Activation) -> dict[str, Value] | None:
    """The values of the inputs, without those that have none; None if the runtime would not read them as we do."""
    data: dict[str, Value] = {}
    room = MAX_INPUT_VALUES
    for name, given, read in inputs:
        try:
            value = read(activation)
        except Fault:
            continue
        if given.most_items is not None and (type(value) is not list or len(value) > given.most_items):
            return None
        room = _room_after(value, room)
        if room < 0:
            return None
        data[name] = value
    return data


def _room_after(value: Value, room: int) -> int:
    """How many more values fit after this one; negative if none, or if it holds what the runtime reads differently."""
    pending = [value]
    while pending and room >= 0:
        room -= 1
        item = pending.pop()
        kind = type(item)
        if kind is str:
            if len(item) > MAX_INPUT_TEXT:
                return -1
        elif kind is list:
            if len(item) > room:
                return -1
            pending.extend(item)
        elif kind is dict:
            if len(item) > room:
                return -1
            pending.extend(item.values())
        elif kind is int and not INT_MIN <= item <= INT_MAX:
            return -1
    return room
