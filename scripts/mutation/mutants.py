"""Small faults in a module's source: comparisons turned, conditions negated, numbers changed, statements left out.

A fault belongs to the outermost function that it is in, and to the statement there whose lines run when it matters, so
that the tests that reach it can be told from those that don't. Annotations and decorators are left alone: they say what
a function is for, or how it is kept, and are gone when it runs. So are assertions, which only a defect could make fail.
"""

import ast
from collections import Counter
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

LEFT_OUT: Final = (ast.Assign, ast.AugAssign, ast.Delete, ast.Return, ast.Continue, ast.Break, ast.Raise)
"""Statements that are left out; calls for the sake of what they do are, too."""


class Mutant(msgspec.Struct, frozen=True):
    """One fault.

    Attributes:
        number: its place among those of the module.
        function, function_line: the outermost function that it is in, as `Class.method`, and where its code begins.
        line, end_line: one of them runs whenever the fault can matter.
        what: what was done; together with the function it says which fault is meant, wherever lines have moved.
    """

    number: int
    function: str
    function_line: int
    line: int
    end_line: int
    what: str


def mutants_of(source: str) -> list[Mutant]:
    """All faults that can be planted into a module. Those of one function that read the same are numbered from 2."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for number, place in enumerate(_places(ast.parse(source))):
        seen[place.name, place.what] += 1
        times = seen[place.name, place.what]
        mutant = Mutant(
            number=number,
            function=place.name,
            function_line=first_line(place.function),
            line=place.line,
            end_line=place.end_line,
            what=place.what if times == 1 else f"{place.what} [{times}]",
        )
        found.append(mutant)
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The module with one of them planted."""
    tree = ast.parse(source)
    for at, place in enumerate(_places(tree)):
        if at == number:
            place.plant()
            return ast.fix_missing_locations(tree)
    raise IndexError(f"the module has no mutant {number}")


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The outermost functions of a module, methods among them, by their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt):
            yield from functions_of(node, prefix)


def first_line(function: ast.FunctionDef) -> int:
    """Where the code of a function begins: with its decorators."""
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


class _Place(msgspec.Struct):
    name: str
    function: ast.FunctionDef
    line: int
    end_line: int
    what: str
    plant: Callable[[], None]


def _places(tree: ast.Module) -> Iterator[_Place]:
    for name, function in functions_of(tree):
        if function.name in ("__repr__", "__str__"):  # for people
            continue
        last = function.end_lineno or function.lineno
        for what, plant in _in_defaults(function):
            yield _Place(name, function, function.body[0].lineno, last, what, plant)
        for statement in _statements(function):
            end_line = _head_end(statement)
            for what, plant in _in_statement(statement):
                yield _Place(name, function, statement.lineno, end_line, what, plant)
        for statement, plant in _left_out(function):
            end_line = _head_end(statement)
            yield _Place(name, function, statement.lineno, end_line, f"left out: {ast.unparse(statement)}", plant)


_Fault = tuple[str, Callable[[], None]]


def _statements(owner: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.iter_child_nodes(owner):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _statements(node)


def _head_end(statement: ast.stmt) -> int:
    """The last line of a statement, without those of statements inside of it."""
    inner = min((one.lineno for one in _statements(statement)), default=None)
    return (statement.end_lineno or statement.lineno) if inner is None else max(statement.lineno, inner - 1)


def _in_defaults(function: ast.FunctionDef) -> Iterator[_Fault]:
    for node in (*function.args.defaults, *function.args.kw_defaults):
        if isinstance(node, ast.Constant) and type(node.value) in (bool, int):
            yield f"default {node.value!r} changed, of `{ast.unparse(function.args)}`", _changing(node)


def _in_statement(statement: ast.stmt) -> Iterator[_Fault]:
    if _states_invariant(statement):
        return
    for node in _expressions(statement):
        yield from _at(node, statement)
    if isinstance(statement, ast.If | ast.While):
        yield f"not ({ast.unparse(statement.test)})", _negating(statement)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """All expressions of a statement itself."""
    if isinstance(statement, ast.FunctionDef):
        yield from (node for node in (*statement.args.defaults, *statement.args.kw_defaults) if node is not None)
        return
    annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.expr | ast.keyword | ast.withitem) and node is not annotation:
            yield from _within(node)
        elif isinstance(node, ast.match_case) and node.guard is not None:
            yield from _within(node.guard)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """An expression and all inside of it."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.keyword) and _states_invariant(child)):
            yield from _within(child)


def _at(node: ast.AST, statement: ast.stmt) -> Iterator[_Fault]:
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            turned = TURNED[type(operator)]
            which = f" (the {index + 1}. of them)" if index else ""
            yield f"{ast.unparse(node)} -> {turned.__name__}{which}", _turning(node, index, turned)
    elif isinstance(node, ast.BoolOp):
        yield f"{ast.unparse(node)}: and <-> or", _swapping_connective(node)
    elif isinstance(node, ast.IfExp):
        yield f"not ({ast.unparse(node.test)})", _negating(node)
    elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
        swapped = SWAPPED[type(node.op)]
        yield f"{ast.unparse(node)} -> {swapped.__name__}", _swapping_operator(node, swapped)
    elif isinstance(node, ast.Constant) and type(node.value) in (bool, int):
        yield f"{node.value!r} changed, column {node.col_offset} of `{_head(statement)}`", _changing(node)


def _head(statement: ast.stmt) -> str:
    return ast.unparse(statement).splitlines()[0]


def _left_out(owner: ast.AST) -> Iterator[tuple[ast.stmt, Callable[[], None]]]:
    blocks = (one for one in ast.walk(owner) if isinstance(one, ast.match_case | ast.ExceptHandler))
    for node in (owner, *_statements(owner), *blocks):
        bodies: list[list[ast.stmt]] = [getattr(node, "body", []), getattr(node, "orelse", [])]
        for body in bodies:
            for index, statement in enumerate(body):
                if node is owner and statement is body[-1] and _returns_nothing(statement):
                    continue
                if (isinstance(statement, LEFT_OUT) and not _states_invariant(statement)) or _is_call(statement):
                    yield statement, _leaving_out(body, index)


def _states_invariant(node: ast.stmt | ast.keyword) -> bool:
    """Whether only a defect could make it matter, so that no test can: an assertion, a `zip` that is not even."""
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    if isinstance(node, ast.Raise):
        return ast.unparse(node).startswith("raise AssertionError")
    return isinstance(node, ast.Assert)


def _returns_nothing(statement: ast.stmt) -> bool:
    """Whether it says what the end of a function says in any case."""
    return isinstance(statement, ast.Return) and (
        statement.value is None or (isinstance(statement.value, ast.Constant) and statement.value.value is None)
    )


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _leaving_out(body: list[ast.stmt], index: int) -> Callable[[], None]:
    def plant() -> None:
        body[index] = ast.copy_location(ast.Pass(), body[index])

    return plant


def _turning(node: ast.Compare, index: int, turned: type[ast.cmpop]) -> Callable[[], None]:
    def plant() -> None:
        node.ops[index] = turned()

    return plant


def _swapping_connective(node: ast.BoolOp) -> Callable[[], None]:
    def plant() -> None:
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()

    return plant


def _negating(node: ast.If | ast.IfExp | ast.While) -> Callable[[], None]:
    def plant() -> None:
        node.test = ast.UnaryOp(ast.Not(), node.test)

    return plant


def _swapping_operator(node: ast.BinOp, swapped: type[ast.operator]) -> Callable[[], None]:
    def plant() -> None:
        node.op = swapped()

    return plant


def _changing(node: ast.Constant) -> Callable[[], None]:
    def plant() -> None:
        node.value = not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1

    return plant
