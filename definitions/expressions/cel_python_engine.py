"""The engine over cel-python, the implementation of CEL in Python.

cel-python parses the text that `cel_python_source` writes, transpiles it to Python, and computes with its own types.
What it lacks is mended on this side:

* Its lexer backtracks without end over some texts: it is given none. Deep trees exhaust its recursion: `MAX_DEPTH`.
* Its transpiled programs share global variables: here each evaluation has its own, so a program may be used by several
  threads, and inside itself.
* It evaluates all operands of `&&`, `||` and `?:`: `_ShortCircuit` transpiles them to what evaluates as needed.
* It counts no cost: loops and functions are charged to a meter, with a small part of the portable engine's budget.
* Its parser is one for the process and raises Python's limit of recursion: ours is its own and leaves the limit alone.

Whatever fails, or costs more than cel-python may spend, is evaluated again by the portable engine, which has the last
word. That is sound because absorbed failures never change a result: `true || x` is true whatever `x` is.
"""

from collections.abc import Callable, Mapping
from functools import cache
from string import Template
from types import CodeType
from typing import Any, cast

import celpy
import celpy.evaluation
from celpy.celparser import CELParser
from celpy.evaluation import Activation as CelActivation
from celpy.evaluation import Phase1Transpiler, Phase2Transpiler, Transpiler, TranspilerTree

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.budget import MAX_COST, Meter
from ductor.definitions.expressions.cel_python_operations import Operations, Variables
from ductor.definitions.expressions.cel_python_source import BOOLEAN, MAX_DEPTH, MAX_ROUNDS, PRESENT, CelPythonEmitter
from ductor.definitions.expressions.cel_python_values import CelValue, Refused, from_cel, to_cel
from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.emitter import Unsupported
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.errors import BudgetFault
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.portable_engine import PortableEngine
from ductor.definitions.expressions.runtime_inputs import RuntimeInputs, inputs_of
from ductor.definitions.expressions.syntax import Node

MAX_INPUT_VALUES = 5_000
"""Values in all inputs of one evaluation together; more cost longer to convert than they cost the portable engine."""
MAX_NATIVE_COST = MAX_COST // 10
"""Units of cost that cel-python may spend before the portable engine begins again."""
_FAILURES = (
    Refused,
    BudgetFault,
    ArithmeticError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What an evaluation may end with; the portable engine says what it was."""
_NAMESPACE = "operations"
"""The name that the transpiled text has for the `Operations` of its evaluation."""
_OPERATORS = {
    "_+_": "add",
    "_-_": "subtract",
    "_*_": "multiply",
    "_/_": "divide",
    "_%_": "modulo",
    "-_": "negate",
    "!_": "negation",
    "_<_": "less",
    "_<=_": "less_or_equal",
    "_>_": "greater",
    "_>=_": "greater_or_equal",
    "_==_": "equal",
    "_!=_": "not_equal",
    "_in_": "contained",
    "_[_]": "index",
    "_&&_": "conjunction",
    "_||_": "disjunction",
    "_?_:_": "choose",
    "size": "size",
    "contains": "contains",
    "startsWith": "starts_with",
    "endsWith": "ends_with",
    BOOLEAN: "boolean",
    PRESENT: "present",
}
"""cel-python's names for its operators, and ours."""


class CelPythonEngine:
    """See the module.

    Args:
        portable: what reads the inputs and has the last word; the portable engine if left out.
    """

    name = "cel-python"

    def __init__(self, portable: PortableEngine | None = None) -> None:
        self._portable = portable or PortableEngine()

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        """See `Engine.compile`."""
        return self.compile_native(tree, functions) or self._portable.compile(tree, functions)

    def compile_native(self, tree: Node, functions: FunctionLibrary) -> Program | None:
        """The program that uses cel-python, or None if it is not given this expression."""
        if tree.depth > MAX_DEPTH:
            return None
        emitter = CelPythonEmitter(functions)
        try:
            code = _transpiled(emitter.emit(tree, {}), len(emitter.calls))
            constants = _constants(emitter)
        except (Unsupported, Refused, RecursionError):
            return None
        inputs = inputs_of(emitter, self._portable, functions, MAX_INPUT_VALUES)
        return _program(code, constants, emitter, inputs, self._portable.compile(tree, functions))


def _program(
    code: CodeType,
    constants: Mapping[str, CelValue],
    emitter: CelPythonEmitter,
    inputs: RuntimeInputs,
    portable: Program,
) -> Program:
    calls, round_costs = tuple(emitter.calls), dict(emitter.round_costs)

    def run(activation: Activation) -> Value:
        data = inputs.read(activation)
        if data is None:
            return portable(activation)
        meter = Meter(MAX_NATIVE_COST, MAX_ROUNDS)
        try:
            values = {name: to_cel(value) for name, value in data.items()}
            names: dict[str, Any] = {
                "__builtins__": {},
                "celpy": celpy,
                _NAMESPACE: Operations(meter, calls),
                "base_activation": Variables(meter, round_costs, {**constants, **values}),
            }
            exec(code, names)  # noqa: S102  # the text is cel-python's, of names that are ours
            return from_cel(names["CEL"])
        except _FAILURES:
            return portable(activation)

    return run


def _constants(emitter: CelPythonEmitter) -> dict[str, CelValue]:
    """The variables that stand for literals, and for the keys that `present` follows."""
    literals = {f"c{number}": to_cel(value) for number, value in enumerate(emitter.constants)}
    paths = {name: [to_cel(key) for key in keys] for name, keys in emitter.key_paths.items()}
    return {**literals, **paths}


def _transpiled(text: str, calls: int) -> CodeType:
    """What cel-python makes of a text: statements that leave the result in the variable `CEL`."""
    functions = {name: _reference(own) for name, own in _OPERATORS.items()}
    functions |= {f"call{number}": _reference(f"functions[{number}]") for number in range(calls)}
    tree = _parser()(text)
    transpiler = Transpiler(tree, CelActivation(functions=functions))
    _ShortCircuit(transpiler).visit(tree)
    collected = Phase2Transpiler(transpiler)
    collected.visit(tree)
    return compile("\n".join(collected.statements(tree)), "<cel-python>", "exec")


def _reference(name: str) -> Any:
    """A function that is never called: cel-python writes the name of its module and its own into the text."""

    def stands_for() -> None: ...

    stands_for.__module__ = _NAMESPACE
    stands_for.__qualname__ = name
    return stands_for


@cache
def _parser() -> Callable[[str], TranspilerTree]:
    """What parses a text: cel-python's parser, apart from the one it keeps for the process and one kind of tree."""
    shared = CELParser.CEL_PARSER
    CELParser.CEL_PARSER = None
    try:
        own = CELParser(tree_class=TranspilerTree).CEL_PARSER
    finally:
        CELParser.CEL_PARSER = shared
    assert own is not None, "cel-python made no parser"
    return cast(Callable[[str], TranspilerTree], own.parse)


_CHOICE = Template(
    "ex_${n}_c = lambda activation: ${cond}\n"
    "ex_${n}_l = lambda activation: ${left}\n"
    "ex_${n}_r = lambda activation: ${rght}\n"
    "ex_${n} = lambda activation: ${func_name}(activation, ex_${n}_c, ex_${n}_l, ex_${n}_r)"
)
_LOGIC = Template(
    "ex_${n}_l = lambda activation: ${left}\n"
    "ex_${n}_r = lambda activation: ${rght}\n"
    "ex_${n} = lambda activation: ${func_name}(activation, ex_${n}_l, ex_${n}_r)"
)


class _ShortCircuit(Phase1Transpiler):
    """Transpiles `?:`, `&&` and `||` to functions of operands that wait to be evaluated."""

    def expr(self, tree: TranspilerTree) -> None:
        super().expr(tree)
        _waiting(tree, _CHOICE)

    def conditionalor(self, tree: TranspilerTree) -> None:
        super().conditionalor(tree)
        _waiting(tree, _LOGIC)

    def conditionaland(self, tree: TranspilerTree) -> None:
        super().conditionaland(tree)
        _waiting(tree, _LOGIC)


def _waiting(tree: TranspilerTree, template: Template) -> None:
    if tree.checked_exception is not None:
        tree.checked_exception = (template, tree.checked_exception[1])
