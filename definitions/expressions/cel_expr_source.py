"""The text of an expression for CEL's C++ runtime; see `emitter` for what is given to it.

That runtime is quick over what it holds, but it copies what a loop has made so far with every item it adds.
"""

import math
from typing import ClassVar

from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.emitter import TEXT_METHODS, Emitter, Scope, Unsupported
from ductor.definitions.expressions.syntax import Call, Has, Loop
from ductor.definitions.expressions.tokens import KEYWORDS, RESERVED

MAX_GROWING_ITEMS = 256
"""Items that `map` or `filter` goes over."""
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class CelExprEmitter(Emitter):
    """Writes one expression in CEL as the specification has it."""

    most_growing_items: ClassVar[int] = MAX_GROWING_ITEMS

    def literal(self, value: Value) -> str:
        if value is None:
            return "null"
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) is int:
            return f"({value})" if value < 0 else str(value)
        if type(value) is float and math.isfinite(value):
            return f"({value!r})"
        if type(value) is str and "\0" not in value:
            return f'"{"".join(_ESCAPES.get(character, character) for character in value)}"'
        raise Unsupported

    def select(self, operand: str, field: str) -> str:
        return f"{operand}.{field}" if _is_plain(field) else f"{operand}[{self.literal(field)}]"

    def presence(self, node: Has, scope: Scope) -> str:
        if not _is_plain(node.field):
            raise Unsupported
        return f"has({self.emit(node.operand, scope)}.{node.field})"

    def call(self, node: Call, scope: Scope) -> str:
        if node.function == "size":
            return f"size({self.emit(node.arguments[0], scope)})"
        if node.function in TEXT_METHODS and not scope:
            target, part = (self.emit(argument, scope) for argument in node.arguments)
            return f"{target}.{node.function}({part})"
        raise Unsupported

    def rounds(self, node: Loop, source: str, scope: Scope) -> str:
        variable, inner = self.bind(node, scope)
        parts = [variable, *(self.emit(child, inner) for child in node.children()[1:])]
        return f"{source}.{node.kind}({', '.join(parts)})"


def _is_plain(field: str) -> bool:
    """Whether a field may follow a dot."""
    return field.isidentifier() and field.isascii() and field not in RESERVED and field not in KEYWORDS
