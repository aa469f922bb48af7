"""Which engine evaluates expressions.

The portable engine does unless the environment says otherwise. Measured, it is the faster one for what workflows do:
CEL's C++ runtime must convert every value in and out, which costs more than most expressions. It is kept as a second
opinion, by which the tests judge the portable engine, and for hosts that loop much over little data.
"""

import os
from functools import cache

from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.portable_engine import PortableEngine

ENGINE_VARIABLE = "DUCTOR_EXPRESSION_ENGINE"
"""Environment variable that forces an engine by name."""


def select_engine(name: str) -> Engine:
    """The engine of a name, `portable` or `cel-expr`.

    Raises:
        ValueError: there is no such engine.
        ImportError: the engine's library is not installed.
    """
    if name == PortableEngine.name:
        return PortableEngine()
    if name == "cel-expr":
        # Imported only where it is asked for: its wheel does not exist for every platform.
        from ductor.definitions.expressions.cel_expr_engine import CelExprEngine  # noqa: PLC0415

        return CelExprEngine()
    raise ValueError(f"there is no expression engine {name!r}; {ENGINE_VARIABLE} is 'portable' or 'cel-expr'")


@cache
def chosen_engine() -> Engine:
    """The engine this process uses, read from the environment once."""
    return select_engine(os.environ.get(ENGINE_VARIABLE, PortableEngine.name))
