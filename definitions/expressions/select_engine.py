"""Which engine evaluates expressions: the portable one, or CEL's C++ runtime where its wheel exists."""

import os
from functools import cache

from ductor.definitions.expressions.engine import Engine
from ductor.definitions.expressions.portable_engine import PortableEngine

ENGINE_VARIABLE = "DUCTOR_EXPRESSION_ENGINE"
"""Environment variable that forces an engine by name."""


@cache
def chosen_engine() -> Engine:
    return PortableEngine()
