"""Plants a mutant into functions that are loaded: the functions stay what they are, and get other code.

So whoever holds one, by import or in a table, runs the fault, and nothing has to be imported a second time. Only faults
inside of functions can be planted so, and those are all that there are (see `scripts.mutation.mutants`).
"""

import ast
import gc
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from scripts.mutation.mutants import Mutant, first_line, functions_of, mutated

Key = tuple[str, int]
"""Qualified name of a function, and the line in which its code begins: a property and its setter have one name."""


class StaleSourceError(Exception):
    """A file has changed since its module was loaded, so that its mutants are others than those of the module."""


class LoadedModule:
    """One module as it is loaded, with its source, and all functions that run its code."""

    def __init__(self, file: Path) -> None:
        """Raises `StaleSourceError` where the file is not what was loaded."""
        self.file: Final = file
        self.source: Final = file.read_text()
        self._functions: Final = _functions_by_key(file)
        for key, code in _codes(compile(self.source, str(file), "exec")).items():
            for function in self._functions.get(key, ()):
                if function.__code__.co_code != code.co_code:
                    raise StaleSourceError(f"{file}:{key[1]}: {key[0]} is not what was loaded; begin again")

    def is_loaded(self, mutant: Mutant) -> bool:
        """Whether there is a function into which it could be planted."""
        return (mutant.function, mutant.function_line) in self._functions

    def plant(self, mutant: Mutant) -> None:
        """Give the function of the mutant its changed code and defaults, for as long as this process lives."""
        tree = mutated(self.source, mutant.number)
        key = (mutant.function, mutant.function_line)
        code = _codes(compile(tree, str(self.file), "exec"))[key]
        (arguments,) = (
            node.args for name, node in functions_of(tree) if name == mutant.function and first_line(node) == key[1]
        )
        for function in self._functions[key]:
            function.__code__ = code
            function.__defaults__ = _defaults(arguments.defaults, function.__defaults__ or ())
            names = [argument.arg for argument in arguments.kwonlyargs]
            keywords = {**dict.fromkeys(names), **(function.__kwdefaults__ or {})}
            changed = _defaults(arguments.kw_defaults, [keywords[name] for name in names])
            function.__kwdefaults__ = {
                name: value
                for name, value, node in zip(names, changed, arguments.kw_defaults, strict=True)
                if node is not None
            }


def _functions_by_key(file: Path) -> dict[Key, list[FunctionType]]:
    found: dict[Key, list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == str(file):
            found.setdefault((one.__code__.co_qualname, one.__code__.co_firstlineno), []).append(one)
    return found


def _codes(module: CodeType) -> dict[Key, CodeType]:
    """All code in a module by key, that of nested functions included."""
    inside = [constant for constant in module.co_consts if isinstance(constant, CodeType)]
    found = {(code.co_qualname, code.co_firstlineno): code for code in inside}
    for code in inside:
        found |= _codes(code)
    return found


def _defaults(nodes: Sequence[ast.expr | None], values: Sequence[object]) -> tuple[object, ...]:
    """The default values of before, constants as they now stand in the source."""
    return tuple(
        node.value if isinstance(node, ast.Constant) else value for node, value in zip(nodes, values, strict=True)
    )
