"""The portable engine: a syntax tree becomes one Python closure per node.

A closure takes the frame of the evaluation: its variables, the slots of its loops, and its meter. Values are Python's
own, so a variable costs nothing to bring in and a result nothing to bring out. Absorption is CEL's: a failure beside a
deciding `false && ...` or `true || ...` does not count, on either side, and in `all` and `exists` alike. Going over a
budget is never absorbed.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ductor.definitions.expressions import operators
from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.analysis import is_type_constant
from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.cel_values import TypeValue, Uint, Value, type_name
from ductor.definitions.expressions.engine import Program
from ductor.definitions.expressions.errors import BudgetFault, Fault
from ductor.definitions.expressions.frame import Closure, Frame
from ductor.definitions.expressions.functions.containers import KEYED_FUNCTIONS
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.loops import LOOPS, keyed_values, loop_items, round_cost
from ductor.definitions.expressions.paths import path_reader
from ductor.definitions.expressions.syntax import (
    Binary,
    Call,
    Conditional,
    Default,
    Has,
    Index,
    KeyedCall,
    ListLiteral,
    Literal,
    Logical,
    Loop,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    path_of,
)

ABSENT = ("missing_key", "index_out_of_range")
"""Kinds of fault that `has` and `default` take as an answer."""


Scope: TypeAlias = Mapping[str, int]
"""The slot of each variable of a loop that is visible."""

_BINARY: dict[str, Callable[[Value, Value, Meter], Value]] = {
    "+": operators.add,
    "-": operators.subtract,
    "*": operators.multiply,
    "/": operators.divide,
    "%": operators.modulo,
    "<": operators.less,
    "<=": operators.less_or_equal,
    ">": operators.greater,
    ">=": operators.greater_or_equal,
    "==": operators.equal,
    "!=": operators.not_equal,
    "in": operators.contains,
}


class PortableEngine:
    """See the module."""

    name = "portable"

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        """See `Engine.compile`."""
        compiler = _Compiler(functions)
        closure = compiler.compile(tree, {})
        slot_count = compiler.slot_count

        def run(activation: Activation) -> Value:
            return closure(Frame(activation, slot_count))

        return run


class _Compiler:
    def __init__(self, functions: FunctionLibrary) -> None:
        self.functions = functions
        self.slot_count = 0
        # Values are tried by the type of the node that is their key, so each case gets the node it is made for.
        self.cases: dict[type[Node], Callable[[Any, Scope], Closure]] = {
            Literal: lambda node, scope: _constant(node.value),
            Name: lambda node, scope: _slot(scope[node.name]),
            Select: lambda node, scope: _select(self.compile(node.operand, scope), node.field),
            Index: lambda node, scope: _index(*self.compile_all(node.children(), scope)),
            Has: lambda node, scope: _has(self.compile(node.operand, scope), node.field),
            Default: lambda node, scope: _default(*self.compile_all(node.children(), scope)),
            Unary: self.compile_unary,
            Binary: self.compile_binary,
            Conditional: lambda node, scope: _conditional(*self.compile_all(node.children(), scope)),
            Logical: lambda node, scope: _logical(node.operator, self.compile_all(node.operands, scope)),
            ListLiteral: lambda node, scope: _list(self.compile_all(node.items, scope)),
            MapLiteral: lambda node, scope: _map(
                self.compile_all(node.keys, scope), self.compile_all(node.values, scope)
            ),
            Call: self.compile_call,
            Loop: self.compile_loop,
            KeyedCall: self.compile_keyed,
        }

    def compile(self, node: Node, scope: Scope) -> Closure:
        """The closure of a node; `scope` gives the slot of each variable of a loop around it."""
        path = path_of(node)
        if path is not None and path[0].name not in scope:
            return _path(path[0].name, path[1])
        return self.cases[type(node)](node, scope)

    def compile_all(self, nodes: Iterable[Node], scope: Scope) -> tuple[Closure, ...]:
        return tuple(self.compile(node, scope) for node in nodes)

    def compile_unary(self, node: Unary, scope: Scope) -> Closure:
        operand = self.compile(node.operand, scope)
        return _negate(operand) if node.operator == "-" else _not(operand)

    def compile_binary(self, node: Binary, scope: Scope) -> Closure:
        return _binary(_BINARY[node.operator], self.compile(node.left, scope), self.compile(node.right, scope))

    def compile_call(self, node: Call, scope: Scope) -> Closure:
        function = self.functions.find(node.function)
        assert function is not None, f"{node.function} was not checked"
        implementation = function.implementation
        arguments = self.compile_all(node.arguments, scope)
        if len(arguments) == 1:
            only = arguments[0]
            return lambda frame: implementation(frame, only(frame))

        def call(frame: Frame) -> Value:
            return implementation(frame, *[argument(frame) for argument in arguments])

        return call

    def compile_loop(self, node: Loop, scope: Scope) -> Closure:
        source = self.compile(node.source, scope)
        slot, inner = self.bind(node.variable, scope)
        condition = None if node.condition is None else self.compile(node.condition, inner)
        return LOOPS[node.kind](source, slot, condition, self.compile(node.body, inner), round_cost(node))

    def compile_keyed(self, node: KeyedCall, scope: Scope) -> Closure:
        implementation = KEYED_FUNCTIONS[node.function]
        source = self.compile(node.source, scope)
        slot, inner = self.bind(node.variable, scope)
        bodies = self.compile_all(node.bodies, inner)
        cost = round_cost(node)

        def call(frame: Frame) -> Value:
            items = loop_items(frame, source(frame), node.function)
            keys = [keyed_values(frame, items, slot, body, cost) for body in bodies]
            return implementation(frame, items, *keys)

        return call

    def bind(self, variable: str, scope: Scope) -> tuple[int, Scope]:
        slot = self.slot_count
        self.slot_count += 1
        return slot, {**scope, variable: slot}


def _path(name: str, keys: tuple[str | int, ...]) -> Closure:
    if is_type_constant(name, keys):
        return _constant(TypeValue(".".join((name, *map(str, keys)))))
    read = path_reader(name, keys)
    return lambda frame: read(frame.activation)


def _constant(value: Value) -> Closure:
    return lambda frame: value


def _slot(slot: int) -> Closure:
    return lambda frame: frame.slots[slot]


def _select(operand: Closure, field: str) -> Closure:
    def select(frame: Frame) -> Value:
        value = operand(frame)
        if type(value) is dict and field in value:
            return value[field]
        return operators.select(value, field)

    return select


def _index(operand: Closure, key: Closure) -> Closure:
    return lambda frame: operators.index(operand(frame), key(frame))


def _has(operand: Closure, field: str) -> Closure:
    def has(frame: Frame) -> bool:
        try:
            value = operand(frame)
        except Fault as fault:
            if fault.kind in ABSENT:
                return False
            raise
        if isinstance(value, Mapping):
            return field in value
        if value is None:
            return False
        raise Fault("no_such_overload", f"has() looks for {field!r} in a {type_name(value)}; only a map has keys")

    return has


def _default(operand: Closure, fallback: Closure) -> Closure:
    def default(frame: Frame) -> Value:
        try:
            value = operand(frame)
        except Fault as fault:
            if fault.kind in ABSENT:
                return fallback(frame)
            raise
        return fallback(frame) if value is None else value

    return default


def _negate(operand: Closure) -> Closure:
    return lambda frame: operators.negate(operand(frame))


def _not(operand: Closure) -> Closure:
    def negated(frame: Frame) -> bool:
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        return operators.no_overload("!", value)

    return negated


def _binary(compute: Callable[[Value, Value, Meter], Value], left: Closure, right: Closure) -> Closure:
    return lambda frame: compute(left(frame), right(frame), frame)


def _conditional(test: Closure, when_true: Closure, when_false: Closure) -> Closure:
    def choose(frame: Frame) -> Value:
        value = test(frame)
        if value is True:
            return when_true(frame)
        if value is False:
            return when_false(frame)
        return operators.no_overload("?:", value)

    return choose


def _logical(symbol: str, operands: tuple[Closure, ...]) -> Closure:
    """A chain in which one operand of the value `deciding` is enough, whatever fails beside it."""
    deciding = symbol == "||"

    def decide(frame: Frame) -> bool:
        failure: Fault | None = None
        for operand in operands:
            try:
                value = operand(frame)
                if value is deciding:
                    return deciding  # type: ignore[no-any-return]  # identity does not narrow Any
                if type(value) is not bool:
                    operators.no_overload(symbol, value)
            except BudgetFault:
                raise
            except Fault as fault:
                failure = failure or fault
        if failure is not None:
            raise failure
        return not deciding

    return decide


def _list(items: tuple[Closure, ...]) -> Closure:
    def build(frame: Frame) -> list[Value]:
        frame.make_list(len(items))
        return [item(frame) for item in items]

    return build


def _map(keys: tuple[Closure, ...], values: tuple[Closure, ...]) -> Closure:
    def build(frame: Frame) -> dict[Value, Value]:
        frame.make_list(len(keys))
        result: dict[Value, Value] = {}
        for key_of, value_of in zip(keys, values, strict=True):
            key = key_of(frame)
            if type(key) not in (str, int, bool, Uint):
                operators.no_overload("{}", key)
            if key in result:
                raise Fault("duplicate_key", f"the key {key!r} stands twice in a map", key=str(key))
            result[key] = value_of(frame)
        return result

    return build
