"""The kinds of runs under chaos: what each is sent, and what has to come of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from ductor.definitions.values import JsonObject, JsonValue

DEFINITIONS = (Path(__file__).parent / "definitions.yaml").read_text(encoding="utf-8")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of run.

    Attributes:
        definition: its name.
        words: the signals that it is sent, in order.
        is_chain: each word is heard by a run of its own.
        hears_event: whether an event is published for it.
        status: how it ends.
        output: of run number `n`.
        compensated: what becomes of its undos.
    """

    definition: str
    words: tuple[str, ...] = ()
    is_chain: bool = False
    hears_event: bool = False
    status: Literal["completed", "failed"] = "completed"
    output: Callable[[int], JsonValue]
    compensated: Literal["", "true"] = ""

    def trigger(self, n: int) -> JsonObject:
        """What run number `n` is started with."""
        return {"n": n}


def _sequence(n: int) -> JsonValue:
    picked = n + 1
    return {"n": picked * 2 + picked + 1, "steps": 4}


def _fan_out(n: int) -> JsonValue:
    return {"near": [(n + index) * 2 for index in range(5)], "far": [n + 1, n + 2]}


def _families(n: int) -> JsonValue:
    return [(n + index + 1) * 2 for index in range(3)]


def _words(*words: str) -> Callable[[int], JsonValue]:
    return lambda _: list(words)


KINDS = (
    Kind(definition="sequence", output=_sequence),
    Kind(definition="fan_out", output=_fan_out),
    Kind(definition="families", output=_families),
    Kind(definition="listener", words=("a", "b", "c"), output=_words("a", "b", "c")),
    Kind(definition="timer", output=lambda n: n + 1),
    Kind(definition="parent", output=lambda n: (n + 1) * 2 + 1),
    Kind(definition="saga", output=lambda _: None, status="failed", compensated="true"),
    Kind(definition="lease", output=lambda n: n),
    Kind(definition="chain", words=("a", "b", "stop"), is_chain=True, output=_words("a", "b", "stop")),
    Kind(definition="event", hears_event=True, output=lambda n: n),
)


def kind_of(number: int) -> Kind:
    """Of run number so-and-so: all kinds in turn."""
    return KINDS[number % len(KINDS)]
