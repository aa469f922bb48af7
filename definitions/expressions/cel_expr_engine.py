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
from ductor.definitions.expressions.cel_expr_source import CelExprEmitter
from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.emitter import MAX_INPUTS, Unsupported
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.portable_engine import PortableEngine
from ductor.definitions.expressions.runtime_inputs import RuntimeInputs, inputs_of
from ductor.definitions.expressions.syntax import Node

MAX_INPUT_VALUES = 20_000
"""Values in all inputs of one evaluation together; more cost longer to convert than an evaluation may take."""


class CelExprEngine:
    """See the module.

    Args:
        portable: what reads the inputs and has the last word; the portable engine if left out.
    """

    name = "cel-expr"

    def __init__(self, portable: PortableEngine | None = None) -> None:
        self._portable = portable or PortableEngine()
        self._environment: Any = cel.NewEnv(variables={f"v{number}": cel.Type.DYN for number in range(MAX_INPUTS)})

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        """See `Engine.compile`."""
        return self.compile_native(tree, functions) or self._portable.compile(tree, functions)

    def compile_native(self, tree: Node, functions: FunctionLibrary) -> Program | None:
        """The program that uses the runtime, or None if the runtime is not given this expression."""
        emitter = CelExprEmitter()
        try:
            native = self._environment.compile(emitter.emit(tree, {}))
        except (Unsupported, RuntimeError):  # the runtime's type checker refuses what fails in any case
            return None
        inputs = inputs_of(emitter, self._portable, functions, MAX_INPUT_VALUES)
        return _program(native, inputs, self._portable.compile(tree, functions))


def _program(native: Any, inputs: RuntimeInputs, portable: Program) -> Program:
    def run(activation: Activation) -> Value:
        data = inputs.read(activation)
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
