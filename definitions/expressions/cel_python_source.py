"""The text of an expression for cel-python; see `emitter` for what is given to it.

The text holds names of ours, operators and brackets, and nothing else: every literal becomes a variable `c0`, `c1`,
..., every field an index, and every call that of a name in `OPERATORS` or of `call0`, `call1`, .... So cel-python's
lexer, which backtracks without end over some texts in quotes, never meets one, and what it makes of the text holds no
character of the expression's author.
"""

from typing import ClassVar

from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.emitter import TEXT_METHODS, Emitter, Scope, Unsupported
from ductor.definitions.expressions.functions.declared import FunctionLibrary, Implementation
from ductor.definitions.expressions.loops import round_cost
from ductor.definitions.expressions.syntax import Call, Has, Loop, Node, path_of

MAX_ROUNDS = 1_000
"""Rounds of all loops of one evaluation together: a round costs cel-python about 10 µs and more."""
UNITS_PER_OPERATION = 5
"""What an operation of a loop's body costs: cel-python takes much longer for it than the portable engine does."""
MAX_DEPTH = 24
"""Depth of the syntax tree: cel-python visits its own, some ten times as deep, by recursion."""
BOOLEAN = "boolean"
"""What the tests of loops are passed through."""
PRESENT = "present"
"""What `has` becomes, where its operand is no input."""
_NATIVE = TEXT_METHODS | {"size"}
_NOT_REPRESENTED = frozenset(("type",))
"""Functions whose results cel-python has in another form."""


class CelPythonEmitter(Emitter):
    """Writes one expression in the part of CEL that cel-python reads as we do.

    Attributes:
        constants: what `c0`, `c1`, ... stand for.
        key_paths: by the name of a constant, the keys that `present` follows.
        calls: the implementations of `call0`, `call1`, ....
        round_costs: what a round of each loop costs, by its variable.
    """

    most_items: ClassVar[int] = MAX_ROUNDS
    most_growing_items: ClassVar[int] = MAX_ROUNDS

    def __init__(self, functions: FunctionLibrary) -> None:
        super().__init__()
        self.functions = functions
        self.constants: list[Value] = []
        self.key_paths: dict[str, tuple[str | int, ...]] = {}
        self.calls: list[Implementation] = []
        self.round_costs: dict[str, int] = {}

    def literal(self, value: Value) -> str:
        self.constants.append(value)
        return f"c{len(self.constants) - 1}"

    def select(self, operand: str, field: str) -> str:
        return f"{operand}[{self.literal(field)}]"

    def presence(self, node: Has, scope: Scope) -> str:
        path = path_of(node.operand)
        operand = self.emit(node.operand, scope) if path is None else scope[path[0].name]
        keys = f"k{len(self.key_paths)}"
        self.key_paths[keys] = (node.field,) if path is None else (*path[1], node.field)
        return f"{PRESENT}({operand}, {keys})"

    def call(self, node: Call, scope: Scope) -> str:
        if node.function in _NATIVE:
            name = node.function
            if scope and name != "size":
                raise Unsupported
        else:
            function = self.functions.find(node.function)
            assert function is not None, f"{node.function} was not checked"
            if scope or node.function in _NOT_REPRESENTED:
                raise Unsupported
            name = f"call{len(self.calls)}"
            self.calls.append(function.implementation)
        return f"{name}({', '.join(self.children(node, scope))})"

    def rounds(self, node: Loop, source: str, scope: Scope) -> str:
        kind, body = node.kind, node.body
        if node.condition is not None:
            source = self.one_loop(node, "filter", source, node.condition, scope)
        return self.one_loop(node, kind, source, body, scope)

    def one_loop(self, node: Loop, kind: str, source: str, body: Node, scope: Scope) -> str:
        variable, inner = self.bind(node, scope)
        self.round_costs[variable] = UNITS_PER_OPERATION * round_cost(node)
        text = self.emit(body, inner)
        return f"{source}.{kind}({variable}, {text if kind == 'map' else f'{BOOLEAN}({text})'})"
