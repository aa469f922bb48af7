"""Calls that the language reads differently from a function: tests for presence, defaults, and loops with a variable.

A macro is known by its name, its style and its number of arguments; everything else is an ordinary call.
"""

from typing import cast

from ductor.definitions.expressions.errors import ExpressionSyntaxError
from ductor.definitions.expressions.syntax import (
    Call,
    Default,
    Has,
    Index,
    KeyedCall,
    Literal,
    Loop,
    LoopKind,
    Name,
    Node,
    Select,
)

LOOP_ARGUMENTS: dict[str, tuple[int, ...]] = {
    "all": (2,),
    "exists": (2,),
    "exists_one": (2,),
    "existsOne": (2,),
    "filter": (2,),
    "map": (2, 3),
}
"""How many arguments, target not counted, each loop takes."""
KEYED_ARGUMENTS = {"sort_by": 3, "to_map": 4}
"""How many arguments, list counted, make a library function one that evaluates its bodies for each item."""
MACROS = frozenset((*LOOP_ARGUMENTS, "has", "default"))
"""Every name that is a macro whatever its arguments."""


def expand_call(
    source: str, offset: int, depth: int, function: str, arguments: tuple[Node, ...], *, method: bool
) -> Node:
    """The node of a call; a method's target is its first argument."""
    if method and function in LOOP_ARGUMENTS:
        return _loop(source, offset, depth, function, arguments)
    if not method and function == "has":
        return _has(source, offset, depth, arguments)
    if function == "default":
        _demand_count(source, offset, function, arguments, 2, "a value and what stands in for it")
        return Default(offset=offset, depth=depth, operand=arguments[0], fallback=arguments[1])
    if len(arguments) == KEYED_ARGUMENTS.get(function):
        variable = _variable(source, function, arguments[1])
        return KeyedCall(
            offset=offset, depth=depth, function=function, source=arguments[0], variable=variable, bodies=arguments[2:]
        )
    return Call(offset=offset, depth=depth, function=function, arguments=arguments, method=method)


def _demand_count(
    source: str, offset: int, function: str, arguments: tuple[Node, ...], count: int, meaning: str
) -> None:
    if len(arguments) != count:
        message = f"{function}() takes {count} argument{'s' if count > 1 else ''}, {meaning}, not {len(arguments)}"
        raise ExpressionSyntaxError(source, offset, message, kind="wrong_arguments")


def _has(source: str, offset: int, depth: int, arguments: tuple[Node, ...]) -> Node:
    _demand_count(source, offset, "has", arguments, 1, "a field such as `trigger.customer`")
    operand = arguments[0]
    if isinstance(operand, Select):
        return Has(offset=offset, depth=depth, operand=operand.operand, field=operand.field)
    if isinstance(operand, Index) and isinstance(operand.key, Literal) and isinstance(operand.key.value, str):
        return Has(offset=offset, depth=depth, operand=operand.operand, field=operand.key.value)
    raise ExpressionSyntaxError(
        source, operand.offset, "has() takes a field such as `trigger.customer`", kind="wrong_arguments"
    )


def _loop(source: str, offset: int, depth: int, function: str, arguments: tuple[Node, ...]) -> Node:
    counts = LOOP_ARGUMENTS[function]
    if len(arguments) - 1 not in counts:
        wanted = " or ".join(str(count) for count in counts)
        message = f"{function}() takes {wanted} arguments, the first a variable, not {len(arguments) - 1}"
        raise ExpressionSyntaxError(source, offset, message, kind="wrong_arguments")
    return Loop(
        offset=offset,
        depth=depth,
        kind=cast(LoopKind, "exists_one" if function == "existsOne" else function),
        source=arguments[0],
        variable=_variable(source, function, arguments[1]),
        condition=arguments[2] if len(arguments) == 4 else None,
        body=arguments[-1],
    )


def _variable(source: str, function: str, node: Node) -> str:
    if isinstance(node, Name):
        return node.name
    message = f"{function}() needs a variable here, as `x`"
    raise ExpressionSyntaxError(source, node.offset, message, kind="wrong_arguments")
