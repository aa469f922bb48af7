"""Which strikes come when: a list made from a seed before anything begins, the same for each seed."""

import random
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

Strike = Literal[
    "host-kill",
    "worker-kill",
    "redis-kill",
    "postgres-kill",
    "host-freeze",
    "redis-freeze",
    "backend-kill",
    "cut",
    "mute",
    "stall",
    "full-disk",
]
STRIKES: Final[tuple[Strike, ...]] = get_args(Strike)

DURATIONS_S: Final[Mapping[Strike, tuple[float, float]]] = {
    "redis-kill": (0.1, 1.5),
    "redis-freeze": (0.5, 3.0),
    "host-freeze": (4.0, 7.0),  # a host that is not heard of for three seconds is taken for dead
    "cut": (0.0, 1.0),
    "mute": (0.2, 1.5),
    "stall": (0.5, 6.0),
    "full-disk": (1.0, 4.0),
}
"""How long each lasts; the others are over at once."""


class PlannedStrike(msgspec.Struct, frozen=True, kw_only=True):
    """One strike.

    Attributes:
        at: when, as a share of the time for all strikes.
        draw: from 0 to 1, says which of several victims it is.
        duration_s: how long it lasts.
    """

    kind: Strike
    at: float
    draw: float
    duration_s: float


def planned(counts: Mapping[Strike, int], seed: int) -> list[PlannedStrike]:
    """So many strikes of each kind, mixed, at times that are spread."""
    chance = random.Random(seed)  # noqa: S311 - nothing is a secret here
    kinds = [kind for kind in STRIKES for _ in range(counts.get(kind, 0))]
    chance.shuffle(kinds)
    return [
        PlannedStrike(
            kind=kind,
            at=(index + chance.random()) / len(kinds),
            draw=chance.random(),
            duration_s=chance.uniform(*DURATIONS_S.get(kind, (0.0, 0.0))),
        )
        for index, kind in enumerate(kinds)
    ]
