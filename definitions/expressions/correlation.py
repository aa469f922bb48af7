"""Which part of a `match` says that a value of the event equals a value of the run.

A bus with a hundred thousand waits must not try each of them for each event. Where a `match` is (or is joined by `&&`
with) `event.payload.order_id == trigger.order_id`, the wait is filed under the path and the value of the right-hand
side, and an event finds its waits by look-up. The whole `match` is still evaluated for what is found.
"""

from ductor.definitions.expressions.expression import Expression, expression_of
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.syntax import Binary, Logical, Name, Node, path_of

EVENT = "event"


class Correlation:
    """A path in the event (as `payload.order_id`) and the expression whose value it must equal.

    Attributes:
        path: keys below `event`, joined by dots.
        value: what it is compared with; does not name the event.
    """

    __slots__ = ("path", "value")

    def __init__(self, path: str, value: Expression) -> None:
        self.path, self.value = path, value


def correlation_of(source: str, functions: FunctionLibrary | None = None) -> Correlation | None:
    """The first such part of a `match` that compiles, None where there is none."""
    tree = parse(source)
    parts = tree.operands if isinstance(tree, Logical) and tree.operator == "&&" else (tree,)
    for part in parts:
        if isinstance(part, Binary) and part.operator == "==":
            for own, other in ((part.left, part.right), (part.right, part.left)):
                path = _event_path(own)
                if path is not None and not _names_event(other):
                    return Correlation(path, expression_of(source, other, functions))
    return None


def _event_path(node: Node) -> str | None:
    found = path_of(node)
    if found is None or found[0].name != EVENT or not found[1]:
        return None
    keys = found[1]
    plain = all(isinstance(key, str) and "." not in key for key in keys)
    return ".".join(str(key) for key in keys) if plain else None


def _names_event(node: Node) -> bool:
    return (isinstance(node, Name) and node.name == EVENT) or any(_names_event(child) for child in node.children())
