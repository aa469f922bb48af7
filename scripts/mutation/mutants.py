"""Small faults in a module's source: comparisons turned, conditions negated, numbers changed, statements left out."""

import ast
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SWAPPED: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add}


class Mutant(msgspec.Struct, frozen=True):
    """One fault: the number of its place among those of the module, its line, and what was done there."""

    number: int
    line: int
    what: str


def mutants_of(source: str) -> list[Mutant]:
    """All faults that can be planted into a module."""
    places = _places(ast.parse(source))
    return [Mutant(number, line, what) for number, (line, what, _) in enumerate(places)]


def mutated(source: str, number: int) -> ast.Module:
    """The module with one of them planted."""
    tree = ast.parse(source)
    for place, (_, _, plant) in enumerate(_places(tree)):
        if place == number:
            plant()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"the module has no mutant {number}")


_Place = tuple[int, str, Callable[[], None]]


def _places(tree: ast.Module) -> Iterator[_Place]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and not _is_for_people(function):
            for node in ast.walk(function):
                yield from _at(node)


def _is_for_people(function: ast.FunctionDef) -> bool:
    return function.name in ("__repr__", "__str__")


def _at(node: ast.AST) -> Iterator[_Place]:
    if isinstance(node, ast.Compare):
        turned = TURNED[type(node.ops[0])]
        yield node.lineno, f"{ast.unparse(node)} -> {turned.__name__}", lambda: _set_comparison(node, turned)
    elif isinstance(node, ast.BoolOp):
        yield node.lineno, f"{ast.unparse(node)}: and <-> or", lambda: _swap_connective(node)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test.lineno, f"not ({ast.unparse(node.test)})", lambda: _negate(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        yield node.lineno, f"{ast.unparse(node)} -> {SWAPPED[type(node.op)].__name__}", lambda: _swap_operator(node)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        yield node.lineno, f"{node.value!r} changed", lambda: _change(node)
    if isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.While | ast.With):
        for index, statement in enumerate(node.body):
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.Delete) or _is_call(statement):
                yield statement.lineno, f"left out: {ast.unparse(statement)}", _leaving_out(node.body, index)


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _leaving_out(body: list[ast.stmt], index: int) -> Callable[[], None]:
    def plant() -> None:
        body[index] = ast.copy_location(ast.Pass(), body[index])

    return plant


def _set_comparison(node: ast.Compare, turned: type[ast.cmpop]) -> None:
    node.ops[0] = turned()


def _swap_connective(node: ast.BoolOp) -> None:
    node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()


def _negate(node: ast.If | ast.IfExp | ast.While) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _swap_operator(node: ast.BinOp) -> None:
    node.op = SWAPPED[type(node.op)]()


def _change(node: ast.Constant) -> None:
    node.value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1
