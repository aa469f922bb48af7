"""Which engine evaluates expressions.

The portable engine does unless the environment says otherwise. Measured, it is the fastest one for what workflows do:
CEL's runtimes must convert every value in and out, which costs more than most expressions. They are second opinions, by
which the tests judge the portable engine; the C++ runtime is also for hosts that loop much over little data.

A runtime is imported only where it is asked for: that costs time, and the C++ one has no wheel for some platforms.
"""

import os
from functools import cache

from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.portable_engine import PortableEngine

ENGINE_VARIABLE = "DUCTOR_EXPRESSION_ENGINE"
"""Environment variable that forces an engine by name."""

ENGINES = ("portable", "cel-python", "cel-expr")
"""The names of all engines, the default first."""


def select_engine(name: str) -> Engine:
    """The engine of a name, `portable`, `cel-python` or `cel-expr`.

    Raises:
        ValueError: there is no such engine.
        ImportError: the engine's library is not installed.
    """
    if name == PortableEngine.name:
        return PortableEngine()
    if name == "cel-python":
        from ductor.definitions.expressions.cel_python_engine import CelPythonEngine  # noqa: PLC0415

        return CelPythonEngine()
    if name == "cel-expr":
        from ductor.definitions.expressions.cel_expr_engine import CelExprEngine  # noqa: PLC0415

        return CelExprEngine()
    raise ValueError(f"there is no expression engine {name!r}; {ENGINE_VARIABLE} is {', '.join(ENGINES)}")


@cache
def chosen_engine() -> Engine:
    """The engine this process uses, read from the environment once."""
    return select_engine(os.environ.get(ENGINE_VARIABLE, PortableEngine.name))
