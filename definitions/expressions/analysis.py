"""Which variables and steps an expression uses, and whether all it names exists."""

import msgspec

from ductor.definitions.expressions.activation import STEPS
from ductor.definitions.expressions.errors import ExpressionSyntaxError, nearest_names
from ductor.definitions.expressions.functions.declared import Function, FunctionLibrary
from ductor.definitions.expressions.functions.standard import TYPE_CONSTANTS
from ductor.definitions.expressions.syntax import Call, Has, KeyedCall, Loop, Name, Node, path_of


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """What an expression or a template uses.

    Attributes:
        variables: names of the variables, those of loops left out.
        steps: refs of the steps named as `steps.x` or `steps["x"]`.
        all_steps: whether `steps` is also used in a way that may touch any step, as `steps[trigger.name]`.
    """

    variables: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    all_steps: bool = False

    def union(self, other: "Names") -> "Names":
        """What either uses."""
        return Names(
            variables=self.variables | other.variables,
            steps=self.steps | other.steps,
            all_steps=self.all_steps or other.all_steps,
        )


def analyze(source: str, tree: Node, functions: FunctionLibrary, variables: frozenset[str] | None) -> Names:
    """What an expression uses, with all names checked.

    Args:
        source: text of the expression, for errors.
        tree: its syntax tree.
        functions: what may be called.
        variables: what may be used; None when anything may.

    Raises:
        ExpressionSyntaxError: an unknown variable or function, or a call with the wrong number of arguments.
    """
    analysis = _Analysis(source, functions, variables)
    analysis.visit(tree, frozenset())
    return Names(variables=frozenset(analysis.used), steps=frozenset(analysis.steps), all_steps=analysis.uses_all_steps)


def is_type_constant(name: str, keys: tuple[str | int, ...]) -> bool:
    """Whether a path is the name of a type, as `int` or `google.protobuf.Timestamp`."""
    return ".".join((name, *map(str, keys))) in TYPE_CONSTANTS


class _Analysis:
    def __init__(self, source: str, functions: FunctionLibrary, variables: frozenset[str] | None) -> None:
        self.source = source
        self.functions = functions
        self.variables = variables
        self.used: set[str] = set()
        self.steps: set[str] = set()
        self.uses_all_steps = False

    def visit(self, node: Node, bound: frozenset[str]) -> None:
        path = path_of(node.operand) if isinstance(node, Has) else path_of(node)
        if path is not None:
            keys = (*path[1], node.field) if isinstance(node, Has) else path[1]
            self.visit_path(path[0], keys, bound)
            return
        if isinstance(node, Call):
            self.check_call(node)
        inner = bound | {node.variable} if isinstance(node, Loop | KeyedCall) else bound
        for position, child in enumerate(node.children()):
            self.visit(child, bound if position == 0 else inner)

    def visit_path(self, root: Name, keys: tuple[str | int, ...], bound: frozenset[str]) -> None:
        if root.name in bound or is_type_constant(root.name, keys):
            return
        if self.variables is not None and root.name not in self.variables:
            raise self.unknown(root.offset, "variable", root.name, sorted(self.variables | bound))
        self.used.add(root.name)
        if root.name == STEPS:
            if keys and isinstance(keys[0], str):
                self.steps.add(keys[0])
            else:
                self.uses_all_steps = True

    def check_call(self, call: Call) -> None:
        function = self.functions.find(call.function)
        if function is None:
            raise self.unknown(call.offset, "function", call.function, sorted(self.functions.names()))
        if function.style != "both" and (function.style == "method") is not call.method:
            proper = f"x.{call.function}(...)" if function.style == "method" else f"{call.function}(...)"
            message = f"{call.function}() is called as {proper}"
            raise ExpressionSyntaxError(self.source, call.offset, message, kind="wrong_arguments")
        if not function.least <= len(call.arguments) <= function.most:
            raise self.wrong_count(call, function)

    def wrong_count(self, call: Call, function: Function) -> ExpressionSyntaxError:
        given = len(call.arguments) - call.method
        message = f"{call.function}() takes {function.counts(method=call.method)} arguments here, not {given}"
        return ExpressionSyntaxError(self.source, call.offset, message, kind="wrong_arguments")

    def unknown(self, offset: int, what: str, name: str, known: list[str]) -> ExpressionSyntaxError:
        nearest = nearest_names(name, known)
        if nearest:
            hint = f"Did you mean {' or '.join(map(repr, nearest))}?"
        else:
            hint = f"There are {', '.join(known)}." if what == "variable" and known else ""
        message = f"there is no {what} {name!r} here"
        return ExpressionSyntaxError(self.source, offset, message, kind=f"unknown_{what}", hint=hint)
