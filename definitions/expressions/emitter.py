"""Syntax tree -> text for a CEL runtime of others, where that runtime can be trusted with it.

Such a runtime has no budget that is ours, so it is given only what is cheap by its form: standard operators, a few
functions, and loops whose bodies cost the same every round. Everything else is `Unsupported` and stays with the
portable engine. What is handed over keeps to one rule: the runtime gives the right value, or it fails; then the
portable engine evaluates again and has the last word.

Paths are not translated. Each becomes an input `v0`, `v1`, ... that holds only the value the path leads to, so the cost
of bringing values in does not grow with the run. An input whose path leads nowhere is left out, and its use fails.

The text has parentheses around every operator and names of our own only, so no runtime reads it otherwise than we do.
How literals, fields and calls are written is for each runtime to say: `cel_expr_source`, `cel_python_source`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec

from ductor.definitions.expressions.analysis import is_type_constant
from ductor.definitions.expressions.budget import MAX_ITERATIONS
from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.syntax import (
    Binary,
    Call,
    Conditional,
    Default,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logical,
    Loop,
    LoopKind,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    path_of,
)

MAX_INPUTS = 16
"""Paths of one expression that the runtime gets."""
MAX_JOINS = 4
"""Uses of `+` that may join texts or lists; each can double what it is given."""
MAX_LITERAL_ITEMS = 16
"""Items of a list or map literal inside a loop."""
_ARITHMETIC = frozenset(("-", "*", "/", "%"))
TEXT_METHODS = frozenset(("contains", "startsWith", "endsWith"))
"""Functions of two texts that are given to a runtime outside of loops."""
Scope: TypeAlias = Mapping[str, str]
"""The runtime's name for each variable of a loop that is visible."""


class Unsupported(Exception):
    """The runtime is not given this expression."""


class Input(msgspec.Struct, frozen=True):
    """A variable the runtime gets.

    Attributes:
        node: what it stands for, evaluated by the portable engine.
        most_items: if a loop goes over it, how many items it may have. It must be a list then: a map has no order
            in the runtime.
    """

    node: Node
    most_items: int | None


class Emitter(ABC):
    """Writes one expression; `inputs` holds, after `emit`, what its variables stand for.

    Attributes:
        most_items: items that a loop goes over.
        most_growing_items: items that `map` or `filter` goes over.
        inputs: what `v0`, `v1`, ... stand for.
        joins: how many `+` may join texts or lists.
        variables: how many loops there are, which have the variables `x0`, `x1`, ...
    """

    most_items: ClassVar[int] = MAX_ITERATIONS
    most_growing_items: ClassVar[int] = MAX_ITERATIONS

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.joins = 0
        self.variables = 0
        self.cases: dict[type[Node], Callable[[Any, Scope], str]] = {
            Literal: lambda node, scope: self.literal(node.value),
            Name: lambda node, scope: scope[node.name],
            Select: lambda node, scope: self.select(self.emit(node.operand, scope), node.field),
            Index: lambda node, scope: "{}[{}]".format(*self.children(node, scope)),
            Has: self.has,
            Default: self.default,
            Unary: lambda node, scope: f"({node.operator}({self.emit(node.operand, scope)}))",
            Binary: self.binary,
            Conditional: lambda node, scope: "({} ? {} : {})".format(*self.children(node, scope)),
            Logical: lambda node, scope: f"({f' {node.operator} '.join(self.children(node, scope))})",
            ListLiteral: self.collection,
            MapLiteral: self.collection,
            Call: self.call,
            Loop: self.loop,
        }

    def emit(self, node: Node, scope: Scope) -> str:
        """The text of a node.

        Raises:
            Unsupported: the runtime can't be given it.
        """
        path = path_of(node)
        if path is not None and path[0].name not in scope:
            if is_type_constant(path[0].name, path[1]):
                raise Unsupported
            return self.input(node)
        case = self.cases.get(type(node))
        if case is None:
            raise Unsupported
        return case(node, scope)

    def children(self, node: Node, scope: Scope) -> list[str]:
        return [self.emit(child, scope) for child in node.children()]

    def input(self, node: Node, *, most_items: int | None = None) -> str:
        if len(self.inputs) == MAX_INPUTS:
            raise Unsupported
        self.inputs.append(Input(node, most_items))
        return f"v{len(self.inputs) - 1}"

    def has(self, node: Has, scope: Scope) -> str:
        path = path_of(node.operand)
        return self.input(node) if path is not None and path[0].name not in scope else self.presence(node, scope)

    def default(self, node: Default, scope: Scope) -> str:
        path = path_of(node.operand)
        if path is None or path[0].name in scope:
            raise Unsupported
        present = Binary(
            offset=node.offset,
            operator="!=",
            left=Default(offset=node.offset, operand=node.operand, fallback=Literal(offset=node.offset, value=None)),
            right=Literal(offset=node.offset, value=None),
        )
        return f"({self.input(present)} ? {self.input(node.operand)} : {self.emit(node.fallback, scope)})"

    def binary(self, node: Binary, scope: Scope) -> str:
        numeric = _is_number(node.left) or _is_number(node.right)
        cheap = numeric or isinstance(node.left, Literal) or isinstance(node.right, Literal)
        if node.operator == "+" and not numeric:
            self.joins += 1
            if scope or self.joins > MAX_JOINS:
                raise Unsupported
        if node.operator == "in":
            cheap = isinstance(node.right, ListLiteral) and all(isinstance(item, Literal) for item in node.right.items)
        if scope and node.operator not in _ARITHMETIC and not cheap:
            raise Unsupported
        return f"({self.emit(node.left, scope)} {node.operator} {self.emit(node.right, scope)})"

    def collection(self, node: ListLiteral | MapLiteral, scope: Scope) -> str:
        if scope and len(node.children()) > MAX_LITERAL_ITEMS:
            raise Unsupported
        if isinstance(node, ListLiteral):
            return f"[{', '.join(self.emit(item, scope) for item in node.items)}]"
        keys = [key.value if isinstance(key, Literal) else None for key in node.keys]
        if not all(type(key) is str for key in keys):
            raise Unsupported
        values = [self.emit(value, scope) for value in node.values]
        return f"{{{', '.join(f'{self.literal(key)}: {value}' for key, value in zip(keys, values, strict=True))}}}"

    def loop(self, node: Loop, scope: Scope) -> str:
        if scope and node.kind in ("map", "filter"):
            raise Unsupported  # what such a loop makes can be as large as all rounds together
        if node.kind == "map" and not _stays_small(node.body, node.variable):
            raise Unsupported
        return self.rounds(node, self.loop_source(node.source, node.kind, scope), scope)

    def bind(self, node: Loop, scope: Scope) -> tuple[str, Scope]:
        """The runtime's name for the variable of a loop, and the scope of its bodies."""
        variable = f"x{self.variables}"
        self.variables += 1
        return variable, {**scope, node.variable: variable}

    def loop_source(self, node: Node, kind: LoopKind, scope: Scope) -> str:
        path = path_of(node)
        if path is not None and path[0].name not in scope:
            grows = kind in ("map", "filter")
            return self.input(node, most_items=self.most_growing_items if grows else self.most_items)
        if isinstance(node, ListLiteral) or (isinstance(node, Loop) and node.kind in ("map", "filter")):
            return self.emit(node, scope)
        raise Unsupported

    @abstractmethod
    def literal(self, value: Value) -> str:
        """The text of a constant."""

    @abstractmethod
    def select(self, operand: str, field: str) -> str:
        """The text of a field of `operand`."""

    @abstractmethod
    def presence(self, node: Has, scope: Scope) -> str:
        """The text of `has` over something that is no path from a variable of the run."""

    @abstractmethod
    def call(self, node: Call, scope: Scope) -> str:
        """The text of a call."""

    @abstractmethod
    def rounds(self, node: Loop, source: str, scope: Scope) -> str:
        """The text of a loop over `source`."""


def _is_number(node: Node) -> bool:
    """Whether a node gives a number or fails."""
    if isinstance(node, Literal):
        return type(node.value) in (int, float)
    if isinstance(node, Unary):
        return node.operator == "-"
    return isinstance(node, Binary) and node.operator in _ARITHMETIC


def _stays_small(body: Node, variable: str) -> bool:
    """Whether what `map` makes of each item is no larger than the item, or a scalar."""
    path = path_of(body)
    if path is not None:
        return path[0].name == variable
    if isinstance(body, Conditional):
        return _stays_small(body.when_true, variable) and _stays_small(body.when_false, variable)
    return isinstance(body, Literal | Unary | Binary | Logical | Has)
