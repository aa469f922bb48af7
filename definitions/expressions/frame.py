"""The state of one evaluation of the portable engine."""

from collections.abc import Callable
from typing import TypeAlias

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.budget import Meter
from ductor.definitions.expressions.cel_values import Value


class Frame(Meter):
    """The variables of the evaluation, a slot for the variable of each loop, and the meter."""

    __slots__ = ("activation", "slots")

    def __init__(self, activation: Activation, slot_count: int) -> None:
        super().__init__()
        self.activation = activation
        self.slots: list[Value] = [None] * slot_count


Closure: TypeAlias = Callable[[Frame], Value]
"""A compiled node."""
