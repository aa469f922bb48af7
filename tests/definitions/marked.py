"""Texts in which the place of an expected problem is marked."""

from ductor.definitions.compile import Compiled, compile_text
from ductor.definitions.documents.nodes import Node
from ductor.definitions.errors import DefinitionError, Problem

MARK = "»"


def unmark(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without its marks, and the line and column each of them stood at."""
    plain, *rest = text.split(MARK)
    positions = []
    for part in rest:
        positions.append((plain.count("\n") + 1, len(plain) - (plain.rfind("\n") + 1) + 1))
        plain += part
    return plain, positions


def problems_of(text: str, **options: object) -> list[Problem]:
    """The problems of a text that must not compile."""
    try:
        compile_text(text, **options)  # type: ignore[arg-type]  # options are those of compile_text
    except DefinitionError as error:
        return list(error.problems)
    raise AssertionError("the text compiles")


def compile_one(text: str) -> Compiled:
    """The one definition of a text."""
    (compiled,) = compile_text(text)
    return compiled


def below(node: Node, *keys: str | int) -> Node:
    """The node that keys and indexes lead to."""
    for key in keys:
        if isinstance(key, str):
            assert isinstance(node.value, dict)
            node = node.value[key]
        else:
            assert isinstance(node.value, list)
            node = node.value[key]
    return node
