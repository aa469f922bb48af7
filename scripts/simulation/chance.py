"""The one source of chance: everything random in a campaign comes from its seed and a name.

Each purpose draws from a stream of its own, so that taking a fault or a step away when a failure is shrunk leaves the
draws of the others as they were.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A stream of repeatable random values. Streams of other names are independent of it."""

    def __init__(self, seed: int, *names: object) -> None:
        text = "/".join(str(part) for part in (seed, *names))
        self._random = random.Random(text)  # noqa: S311 - repeatable is what it has to be

    def happens(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self._random.random() < probability

    def whole(self, low: int, high: int) -> int:
        """A whole number between `low` and `high`, both included."""
        return self._random.randint(low, high)

    def real(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        return self._random.uniform(low, high)

    def waiting(self, mean: float) -> float:
        """A waiting time with this mean: mostly short, now and then long."""
        return self._random.expovariate(1.0 / mean)

    def one_of(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[int(self._random.random() * len(choices))]

    def some_of(self, choices: Sequence[T], count: int) -> list[T]:
        """`count` of the choices, or all where there are fewer, in random order."""
        return self._random.sample(list(choices), min(count, len(choices)))
