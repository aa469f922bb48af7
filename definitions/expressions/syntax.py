"""The syntax tree of an expression.

The tree is what remains after parsing: parentheses are gone, macros are nodes of their own, chains of `&&` and `||`
are flat. `offset` is where the node stands in the source, in characters; `depth` is one more than its deepest child,
kept so that the parser can refuse a tree that is too deep without walking it.
"""

from collections.abc import Iterator
from typing import Literal as OneOf
from typing import TypeAlias

import msgspec

from ductor.definitions.expressions.cel_values import Value

BinaryOperator: TypeAlias = OneOf["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "in"]
LoopKind: TypeAlias = OneOf["all", "exists", "exists_one", "map", "filter"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What all nodes share."""

    offset: int
    depth: int = 1

    def children(self) -> "tuple[Node, ...]":
        """The nodes directly below, in source order."""
        return ()


class Literal(Node, frozen=True, kw_only=True):
    """A value written in the source."""

    value: Value


class Name(Node, frozen=True, kw_only=True):
    """A variable."""

    name: str


class Select(Node, frozen=True, kw_only=True):
    """`operand.field`."""

    operand: Node
    field: str

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Index(Node, frozen=True, kw_only=True):
    """`operand[key]`."""

    operand: Node
    key: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.key)


class Has(Node, frozen=True, kw_only=True):
    """`has(operand.field)`."""

    operand: Node
    field: str

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Default(Node, frozen=True, kw_only=True):
    """`default(operand, fallback)`."""

    operand: Node
    fallback: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand, self.fallback)


class Call(Node, frozen=True, kw_only=True):
    """A call of a function; a method's target is the first argument."""

    function: str
    arguments: tuple[Node, ...]
    method: bool

    def children(self) -> tuple[Node, ...]:
        return self.arguments


class Unary(Node, frozen=True, kw_only=True):
    """`-operand` or `!operand`."""

    operator: OneOf["-", "!"]
    operand: Node

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


class Binary(Node, frozen=True, kw_only=True):
    """An arithmetic operator, a comparison, or `in`."""

    operator: BinaryOperator
    left: Node
    right: Node

    def children(self) -> tuple[Node, ...]:
        return (self.left, self.right)


class Logical(Node, frozen=True, kw_only=True):
    """A chain of `&&` or of `||`."""

    operator: OneOf["&&", "||"]
    operands: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.operands


class Conditional(Node, frozen=True, kw_only=True):
    """`test ? when_true : when_false`."""

    test: Node
    when_true: Node
    when_false: Node

    def children(self) -> tuple[Node, ...]:
        return (self.test, self.when_true, self.when_false)


class ListLiteral(Node, frozen=True, kw_only=True):
    """`[item, ...]`."""

    items: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return self.items


class MapLiteral(Node, frozen=True, kw_only=True):
    """`{key: value, ...}`."""

    keys: tuple[Node, ...]
    values: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return tuple(node for pair in zip(self.keys, self.values, strict=True) for node in pair)


class Loop(Node, frozen=True, kw_only=True):
    """A macro over a list or the keys of a map; `condition` is that of `map(x, condition, body)`."""

    kind: LoopKind
    source: Node
    variable: str
    condition: Node | None
    body: Node

    def children(self) -> tuple[Node, ...]:
        return (self.source, self.body) if self.condition is None else (self.source, self.condition, self.body)


class KeyedCall(Node, frozen=True, kw_only=True):
    """A library function that evaluates its `bodies` for each item, as `sort_by(list, x, x.price)`."""

    function: str
    source: Node
    variable: str
    bodies: tuple[Node, ...]

    def children(self) -> tuple[Node, ...]:
        return (self.source, *self.bodies)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it; depth is bounded by the parser."""
    yield node
    for child in node.children():
        yield from walk(child)


def path_of(node: Node) -> tuple[Name, tuple[str | int, ...]] | None:
    """The root and the keys of a pure path such as `a.b[0]["c"]`, or None."""
    keys: list[str | int] = []
    while True:
        if isinstance(node, Name):
            return node, tuple(reversed(keys))
        if isinstance(node, Select):
            keys.append(node.field)
            node = node.operand
        elif isinstance(node, Index) and isinstance(node.key, Literal) and _is_path_key(node.key.value):
            keys.append(node.key.value)
            node = node.operand
        else:
            return None


def _is_path_key(value: Value) -> bool:
    return type(value) is str or (type(value) is int and value >= 0)
