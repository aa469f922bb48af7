"""Damages JSON as JSON: one value of it becomes another, so that what comes out can still be read.

Bytes that are changed by chance are hardly ever JSON, and what reads JSON in C tells a fuzzer nothing about its way
there; so such input would be refused at the door for ever.
"""

import json
import random
from typing import Final, TypeAlias

from ductor.definitions.values import JsonValue

Container: TypeAlias = list[JsonValue] | dict[str, JsonValue]

EDGES: Final[tuple[JsonValue, ...]] = (
    None, True, False, 0, 1, -1, 2, 255, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**30, 0.5, -0.0, 1e308,
    "", " ", "a", "0", "@run", "@timeout", "each[0]", "each[1]", "[0]", "done.compensate", "é", "😀", "a" * 300,
    "${trigger.x}", [], [None], {}, {"": None},
)  # fmt: skip
"""Values at which something may begin to go wrong."""

MAX_DAMAGES: Final = 3


def damaged_json(text: bytes, chance: random.Random) -> bytes | None:
    """The text with some values changed, left out, doubled or swapped; None where it is no JSON object or list."""
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list | dict) or not value:
        return None
    for _ in range(chance.randint(1, MAX_DAMAGES)):
        places = list(_places(value))
        if places:
            _damage(places, chance)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def _places(value: JsonValue) -> list[tuple[Container, int | str]]:
    """Every place of a value that something stands in."""
    found: list[tuple[Container, int | str]] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found += [(one, key) for key in one]
            waiting += one.values()
        elif isinstance(one, list):
            found += [(one, index) for index in range(len(one))]
            waiting += one
    return found


def _damage(places: list[tuple[Container, int | str]], chance: random.Random) -> None:
    container, key = chance.choice(places)
    other_container, other_key = chance.choice(places)
    other = json.loads(json.dumps(_get(other_container, other_key)))  # of its own: a value must not come to hold itself
    match chance.randrange(5):
        case 0:
            _set(container, key, chance.choice(EDGES))
        case 1:
            _set(container, key, other)
        case 2:
            del container[key]  # type: ignore[arg-type]  # a list has numbers, an object names
        case 3 if isinstance(container, list):
            container.insert(chance.randint(0, len(container)), other)
        case 3:
            _set(container, other_key if isinstance(other_key, str) else "a", other)
        case _:
            _set(container, key, _nearby(_get(container, key), chance))


def _nearby(value: JsonValue, chance: random.Random) -> JsonValue:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + chance.choice([-1, 1])
    if isinstance(value, str):
        return value[: chance.randint(0, len(value))] + chance.choice(["", "a", "[0]", "]", "@", "."])
    return []


def _get(container: Container, key: int | str) -> JsonValue:
    return container[key]  # type: ignore[index]


def _set(container: Container, key: int | str, value: JsonValue) -> None:
    container[key] = value  # type: ignore[index]
