"""Which part of a `match` says that a value of the event equals a value of the run.

A bus with a hundred thousand waits must not try each of them for each event. Where a `match` is (or is joined by `&&`
with) `event.payload.order_id == trigger.order_id`, the wait is filed under the path and the value of the right-hand
side, and an event finds its waits by look-up. The whole `match` is still evaluated for what is found.

What is filed is the value at that moment, so it matters what the right-hand side reads: see `Correlation`.
"""

from collections.abc import Iterator

from ductor.definitions.expressions.expression import Expression, expression_of
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.syntax import Binary, Has, Logical, Name, Node, path_of

EVENT = "event"
PAYLOAD = "payload"

CONSTANT_VARIABLES = frozenset({"trigger", "config"})
CONSTANT_OF_RUN = frozenset({"id", "tenant", "definition", "started_at", "parent", "root", "iteration"})


class Correlation:
    """A path in the event (as `payload.order_id`) and the expression whose value it must equal.

    Attributes:
        path: keys below `event`, joined by dots; the first is `payload`.
        value: what it is compared with; does not name the event.
        context_keys: the top-level keys of the run context that `value` reads.
        is_constant: whether `value` stays what it is for a whole run, the context and the outputs of steps apart.
    """

    __slots__ = ("context_keys", "is_constant", "path", "value")

    def __init__(self, path: str, value: Expression, context_keys: frozenset[str], *, is_constant: bool) -> None:
        self.path, self.value = path, value
        self.context_keys, self.is_constant = context_keys, is_constant


def correlation_of(source: str, functions: FunctionLibrary | None = None) -> Correlation | None:
    """The first such part of a `match`, None where there is none."""
    tree = parse(source)
    parts = tree.operands if isinstance(tree, Logical) and tree.operator == "&&" else (tree,)
    for part in parts:
        if isinstance(part, Binary) and part.operator == "==":
            for own, other in ((part.left, part.right), (part.right, part.left)):
                path = _payload_path(own)
                if path is not None and not _names_event(other):
                    return _correlation(path, other, expression_of(source, other, functions))
    return None


def _payload_path(node: Node) -> str | None:
    found = path_of(node)
    if found is None or found[0].name != EVENT or found[1][:1] != (PAYLOAD,):
        return None
    keys = found[1]
    plain = all(isinstance(key, str) and "." not in key for key in keys)
    return ".".join(str(key) for key in keys) if plain else None


def _names_event(node: Node) -> bool:
    return (isinstance(node, Name) and node.name == EVENT) or any(_names_event(child) for child in node.children())


def _correlation(path: str, tree: Node, value: Expression) -> Correlation:
    context_keys: set[str] = set()
    is_constant = True
    for root, keys in _paths(tree):
        if root not in value.names.variables or root in CONSTANT_VARIABLES or root == "steps":
            continue
        key = keys[0] if keys else None
        if root == "context" and isinstance(key, str):
            context_keys.add(key)
        elif root != "run" or key not in CONSTANT_OF_RUN:
            is_constant = False
    return Correlation(path, value, frozenset(context_keys), is_constant=is_constant)


def _paths(node: Node) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    found = path_of(node.operand) if isinstance(node, Has) else path_of(node)
    if found is not None:
        yield found[0].name, (*found[1], node.field) if isinstance(node, Has) else found[1]
        return
    for child in node.children():
        yield from _paths(child)
