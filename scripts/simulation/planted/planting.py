"""How bugs are planted: by replacing one function for as long as they are wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

Planting = Callable[[], Iterator[None]]


class PlantedBug(msgspec.Struct, frozen=True):
    """One mutation.

    Attributes:
        what: what the engine does then.
        plant: makes it for the length of a `with` block.
        restarts: whether it is looked for in campaigns in which hosts are restarted in order, and no worse.
    """

    name: str
    what: str
    plant: Callable[[], Any]
    restarts: bool = False


PLANTED: dict[str, PlantedBug] = {}
"""All of them by name, in the order in which their modules are imported."""


def planted(what: str, *, restarts: bool = False) -> Callable[[Planting], Planting]:
    """Add a bug, named as the function that plants it."""

    def register(planting: Planting) -> Planting:
        name = planting.__name__.removeprefix("_")
        PLANTED[name] = PlantedBug(name, what, contextmanager(planting), restarts)
        return planting

    return register


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Another value for a name of a class or module, within the block."""
    former = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)
