"""What an expression reads, with the values that it finds: for people who ask why it came out as it did."""

from collections.abc import Iterator

import msgspec

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.analysis import is_type_constant
from ductor.definitions.expressions.cel_values import to_json
from ductor.definitions.expressions.errors import Fault
from ductor.definitions.expressions.parse import parse
from ductor.definitions.expressions.paths import path_reader
from ductor.definitions.expressions.syntax import Has, KeyedCall, Loop, Node, path_of
from ductor.definitions.values import JsonValue

MAX_VALUES_SEEN = 32
"""Paths of one expression that are looked up."""

Path = tuple[str, tuple[str | int, ...]]


class SeenValue(msgspec.Struct, frozen=True):
    """What stands at a path such as `steps.charge.output.total`; `problem` says why nothing does."""

    path: str
    value: JsonValue = None
    problem: str = ""


def values_seen(source: str, activation: Activation) -> list[SeenValue]:
    """The values at the paths that an expression names, each path once, in the order of its text.

    Args:
        source: text of an expression that compiles.
        activation: the variables.
    """
    paths = list(dict.fromkeys(_paths(parse(source), frozenset())))
    return [_seen(path, activation) for path in paths[:MAX_VALUES_SEEN]]


def _paths(node: Node, bound: frozenset[str]) -> Iterator[Path]:
    """Those that lead to variables; `bound` are the names that loops around have taken."""
    found = path_of(node.operand) if isinstance(node, Has) else path_of(node)
    if found is not None:
        name, keys = found[0].name, (*found[1], node.field) if isinstance(node, Has) else found[1]
        if name not in bound and not is_type_constant(name, keys):
            yield name, keys
        return
    inner = bound | {node.variable} if isinstance(node, Loop | KeyedCall) else bound
    for position, child in enumerate(node.children()):
        yield from _paths(child, bound if position == 0 else inner)


def _seen(path: Path, activation: Activation) -> SeenValue:
    name, keys = path
    text = name + "".join(_key_text(key) for key in keys)
    try:
        return SeenValue(text, to_json(path_reader(name, keys)(activation)))
    except Fault as fault:
        return SeenValue(text, problem=fault.message)


def _key_text(key: str | int) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{msgspec.json.encode(key).decode()}]"
